"""CKY of many sentences at once against the algorithm in plain Python, on the CPU: the same scores, the same trees.

    python benchmarks/cky.py                  under a minute

Both find the labelled spans of the best tree from the scores of each label for each span, as a parser gives them; here
they are random, of as many labels as the Penn Treebank's sample has. Rounds in turn; printed: sentences/s, the ratio.
"""

import argparse
import time

import torch
from common import describe_machine, in_turns, report

from manyheads.tasks.parse.use import best_spans

LABELS = 59


def plain(scores: list[list[list[float]]], words: int) -> set[tuple[int, int, int]]:
    """The spans of the best tree with the numbers of their labels, as a textbook finds them; label 0 is none."""
    best = [[0.0] * (words + 1) for _ in range(words + 1)]
    split = [[0] * (words + 1) for _ in range(words + 1)]
    for width in range(1, words + 1):
        for first in range(words - width + 1):
            behind = first + width
            most, place = 0.0, 0
            for middle in range(first + 1, behind):
                value = best[first][middle] + best[middle][behind]
                if not place or value > most:
                    most, place = value, middle
            best[first][behind] = max(scores[first][behind]) + most
            split[first][behind] = place
    spans, waiting = set(), [(0, words)]
    while waiting:
        first, behind = waiting.pop()
        label = scores[first][behind].index(max(scores[first][behind]))
        if label:
            spans.add((first, behind, label))
        if behind - first > 1:
            waiting += [(first, split[first][behind]), (split[first][behind], behind)]
    return spans


def main() -> None:
    parser = argparse.ArgumentParser(description="sentences/s of CKY")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--words", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    describe_machine()
    count, words = options.sentences, options.words
    scores = torch.randn(count, words + 1, words + 1, 1 + LABELS, generator=torch.Generator().manual_seed(1))
    lengths, lists = torch.full((count,), words), scores.tolist()
    names = [str(number) for number in range(1, 1 + LABELS)]
    trees = [
        {(span.first, span.behind, int(span.label)) for span in tree} for tree in best_spans(scores, lengths, names)
    ]
    equal = sum(tree == plain(each, words) for tree, each in zip(trees, lists))
    print(f"{equal} of {count} trees are equal")

    def rate(work, times: int) -> float:
        began = time.perf_counter()
        for _ in range(times):
            work()
        return times * count / (time.perf_counter() - began)

    rates = in_turns(
        {
            "manyheads": lambda: rate(lambda: best_spans(scores, lengths, names), 50),
            "plain Python": lambda: rate(lambda: [plain(each, words) for each in lists], 1),
        },
        options.rounds,
        warmup=1,
    )
    report(f"CKY of {count} sentences of {words} words", rates, "sentences/s", "manyheads")


if __name__ == "__main__":
    main()
