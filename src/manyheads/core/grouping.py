"""Which rows go through a model together, when all of them are known and none is random."""

from collections.abc import Iterator, Sequence


def grouped(
    lengths: Sequence[int], cells: int, *, longest_first: bool = False, most: int | None = None
) -> Iterator[list[int]]:
    """Places of rows of about the same length, as many at a time as fit into `cells` with their padding; one at least.

    The shortest come first, or the longest where memory is better asked for at once; rows equally long keep their
    order.  A length may be any cost of a row that grows with it.  `most` is how many rows are taken at a time.
    """
    group: list[int] = []
    longest = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place] if longest_first else lengths[place]):
        longest = max(longest, lengths[place])
        if group and ((len(group) + 1) * longest > cells or len(group) == most):
            yield group
            group, longest = [], lengths[place]
        group.append(place)
    if group:
        yield group
