"""Which examples are held out for validation where no others are given."""

import random
import sys
from collections.abc import Iterable, Sequence

from manyheads.core.log import say


def held_out(classes: Iterable[Sequence[int]], *, every: int, seed: int, most: int = sys.maxsize) -> frozenset[int]:
    """The numbers of one example in `every`, at most `most`, drawn by a seed; each class gives its share.

    `classes` are the numbers of the examples of each, all in one where there are none.  The only example of a class is
    one to learn from.
    """
    # The smallest come last, where what the shares of larger ones leave over adds up.
    several = sorted((numbers for numbers in classes if len(numbers) > 1), key=len, reverse=True)
    count = sum(map(len, several))
    total, generator = min(count // every, most), random.Random(seed)
    held: list[int] = []
    passed = 0
    for numbers in several:
        passed += len(numbers)
        held += generator.sample(numbers, total * passed // count - len(held))
    return frozenset(held)


def say_held_out(held: int, count: int, what: str, seed: int) -> None:
    """Tells how many are held out."""
    say(f"held out for validation: {held:,} of {count:,} {what}, drawn by --seed {seed}")
