"""Our language models in EleutherAI's lm_eval, which asks how likely a text is and how another goes on.

    python -m manyheads.evals.lm_eval --model manyheads --model_args pretrained=runs/lm --tasks lambada_openai

is lm_eval's own command line with one model more; all its other options are as they are there.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from manyheads.core.errors import ConfigError, ManyheadsError, MissingExtra
from manyheads.core.grouping import grouped
from manyheads.generate.sample import Sampling
from manyheads.generate.score import Scored, log_probabilities, windows
from manyheads.interop.directory import find_model
from manyheads.tasks.language.use import ROWS_AT_ONCE, LanguageModel
from manyheads.text.tokenizer import named_beside


def _refuse(error: ManyheadsError) -> NoReturn:
    print(f"manyheads: {error}", file=sys.stderr)
    sys.exit(2)


try:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import TemplateLM
    from lm_eval.api.registry import register_model
    from lm_eval.models.utils import normalize_gen_kwargs
    from tqdm import tqdm
except ImportError:
    missing = MissingExtra("lm-eval", "evaluate", "Running lm_eval's tasks")
    if __name__ == "__main__":
        _refuse(missing)
    raise missing from None

BATCH_POSITIONS = 16_384  # positions in the cache of one batch


@dataclass(frozen=True)
class Writing:
    """A prompt and how to go on with it."""

    prompt: tuple[int, ...]
    tokens: int
    stop: tuple[str, ...]
    sampling: Sampling


@register_model("manyheads")
class ManyheadsLM(TemplateLM):
    """A run directory, a model directory of ours, or a GPT-2, GPT or Llama checkpoint, for lm_eval's tasks."""

    max_gen_toks = 256  # where a task names no limit, as lm_eval's own models do

    def __init__(
        self,
        pretrained: str | Path,
        device: str = "auto",
        precision: str = "float32",
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
    ):
        """`pretrained` is the directory; the sizes of batches, which lm_eval passes, follow from the tokens instead."""
        super().__init__()
        self.directory = find_model(Path(str(pretrained)))  # lm_eval makes a number of a name that looks like one
        self.language = LanguageModel.load(self.directory, device=device, precision=precision)
        self.model, self.tokenizer = self.language.model, self.language.tokenizer
        self._device = self.language.device
        # Some tokenizers name a beginning that they do not put before a text; lm_eval's own models use it all the same.
        named = named_beside(self.directory / "tokenizer.json").get("bos_token", "")
        spelt, start = self.tokenizer.encode([named], special=True)[0], self.tokenizer.start
        self.first = start[0] if start else spelt[0] if len(spelt) == 1 else self.language.special.end

    @property
    def max_length(self) -> int:
        return self.model.config.context

    @property
    def tokenizer_name(self) -> str:
        return str(self.directory)

    @property
    def eot_token_id(self) -> int:
        end = self.language.special.end
        return -1 if end is None else end

    @property
    def prefix_token_id(self) -> int:
        """What a text's first token is predicted from."""
        if self.first is None:
            raise ConfigError("this model knows no beginning of a text, so that nothing predicts a text's first token")
        return self.first

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> NoReturn:
        raise ConfigError("chat templates are not known here; leave --apply_chat_template out")

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """A text as ids, behind what begins one unless that is spelt out in it."""
        ids, start = self.tokenizer.encode([string], special=True)[0], self.tokenizer.start
        if add_special_tokens is None:
            add_special_tokens = ids[: len(start)] != start
        return start + ids if add_special_tokens else ids

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        begun, rest = super()._encode_pair(context, continuation)
        return self._begun(begun), rest

    def _begun(self, ids: list[int]) -> list[int]:
        """A prompt before what the model was taught to wait for; a beginning stands for an empty one."""
        return ids + self.tokenizer.behind or [self.prefix_token_id]

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        for (context, continuation), _, rest in requests:
            if not 0 < len(rest) <= self.max_length:
                raise ConfigError(
                    f"{continuation[:40]!r} adds {len(rest)} tokens to {context[-40:]!r}; what is scored must have at "
                    f"least one and fit the model's {self.max_length}"
                )
        scored = self._scored([(begun, rest) for _, begun, rest in requests], disable_tqdm)
        return [(each.total, each.greedy) for each in scored]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """The log-probability of each text: every token is predicted once, in as few windows as there can be.

        What begins a text is seen and not predicted, as lm_eval describes it. (Its own models predict it where their
        tokenizer adds it, unless they are given add_bos_token=False.)
        """
        rows, counts = [], []
        for request in requests:
            ids = self.tok_encode(request.args[0], add_special_tokens=False)
            found = windows(ids, [self.prefix_token_id], self.max_length, self.max_length)
            rows += found
            counts.append(len(found))
        scored = iter(self._scored(rows, disable_tqdm))
        return [sum(each.total for each in islice(scored, count)) for count in counts]

    def _scored(self, rows: list[tuple[list[int], list[int]]], quiet: bool) -> list[Scored]:
        with tqdm(total=len(rows), desc="Scoring texts", disable=quiet) as bar:
            return log_probabilities(self.model, rows, on_progress=lambda done: bar.update(done - bar.n))

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """What each prompt goes on with until a stop string, the end of the text or the limit; greedy if not told."""
        writings = [self._writing(*request.args[:2]) for request in requests]
        seen: Counter[Writing] = Counter()
        streams, texts = [], [""] * len(writings)
        for writing in writings:
            streams.append(seen[writing])  # a request that is repeated is a further sample
            seen[writing] += 1
        with tqdm(total=len(writings), desc="Writing texts", disable=disable_tqdm) as bar:
            for places in self._batches(writings):
                group = [writings[place] for place in places]
                prompts, limits = [list(each.prompt) for each in group], [each.tokens for each in group]
                stops, drawn = [each.stop for each in group], [streams[place] for place in places]
                for row, piece in self.language.stream_ids(prompts, limits, stops, group[0].sampling, drawn):
                    texts[places[row]] += piece
                for place in places:
                    self.cache_hook.add_partial("generate_until", requests[place].args, texts[place])
                bar.update(len(places))
        return texts

    def _writing(self, prompt: str, how: dict[str, Any]) -> Writing:
        asked: dict[str, Any] = {**normalize_gen_kwargs(how, self.max_gen_toks)}
        tokens, stop, by_chance = asked.pop("max_gen_toks"), asked.pop("until"), asked.pop("do_sample")
        if asked.get("num_beams") == 1:
            del asked["num_beams"]
        known = [field.name for field in fields(Sampling)]
        unknown = [name for name in asked if name not in known]
        if unknown:
            raise ConfigError(f"the task sets {', '.join(unknown)}; how text is written here has {', '.join(known)}")
        if tokens < 1:
            raise ConfigError(f"the task asks for {tokens} tokens; it must be at least 1")
        # As lm_eval's own models do; they refuse to write as much as a context, where here half of one is read.
        room = self.max_length - tokens if tokens < self.max_length else max(self.max_length // 2, 1)
        ids = self._begun(self.tok_encode(prompt))[-room:]
        sampling = Sampling(**{"temperature": 1.0 if by_chance else 0.0, **asked})
        return Writing(tuple(ids), tokens, tuple(each for each in stop if each), sampling)

    def _batches(self, writings: list[Writing]) -> Iterator[list[int]]:
        """Places of writings, longest first, that are sampled alike and fit into one cache; one at least."""
        groups: dict[Sampling, list[int]] = {}
        for place, writing in enumerate(writings):
            groups.setdefault(writing.sampling, []).append(place)
        for places in groups.values():
            whole = [len(writings[place].prompt) + writings[place].tokens for place in places]
            lengths = [min(length, self.max_length) for length in whole]
            most = 1 if self.model.rows_share_length else ROWS_AT_ONCE
            for group in grouped(lengths, BATCH_POSITIONS, longest_first=True, most=most):
                yield [places[each] for each in group]


def main() -> None:
    """lm_eval's own command line, which now knows the model `manyheads`."""
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except ManyheadsError as error:
        _refuse(error)


if __name__ == "__main__":
    main()
