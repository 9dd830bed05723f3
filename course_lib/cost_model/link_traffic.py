"""The bytes of an all-reduce, for each pair of ranks, exactly.

Counted from who sends what to whom, where ``seconds`` has the sum as a formula; both stand on ``pairing``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from course_lib.arguments import Catalog, whole_number
from course_lib.cost_model.pairing import powers_of_two, staying


@dataclass(frozen=True)
class Traffic:
    """The bytes of one call: ``links[sender, receiver]``, for each pair between which there are any."""

    ranks: int
    links: dict[tuple[int, int], int]

    @property
    def sent(self) -> tuple[int, ...]:
        """Bytes that each rank sends, in rank order."""
        return self._by_rank((sender, count) for (sender, _), count in self.links.items())

    @property
    def received(self) -> tuple[int, ...]:
        """Bytes that each rank receives, in rank order."""
        return self._by_rank((receiver, count) for (_, receiver), count in self.links.items())

    @property
    def busiest_direction(self) -> int:
        """The most bytes that one rank's link carries in one of its two directions."""
        return max(*self.sent, *self.received)

    def _by_rank(self, counts: Iterable[tuple[int, int]]) -> tuple[int, ...]:
        sums: Counter[int] = Counter()
        for rank, count in counts:
            sums[rank] += count
        return tuple(sums[rank] for rank in range(self.ranks))


def traffic(algorithm: str, elements: int, ranks: int, element_bytes: int = 4) -> Traffic:
    """The bytes between all pairs of ranks in one all-reduce of ``elements``.

    Besides cost_model.ALGORITHMS, ``reduce-scatter`` and ``all-gather`` are the ring's two halves.  Chunks
    are those of ``torch.tensor_split``: where there is a rest, each of the first ones has an element more.
    Raises ValueError for an unknown algorithm, and for numbers that are not whole.
    """
    flows = _FLOWS[algorithm]
    elements, ranks = whole_number("elements", elements, least=0), whole_number("ranks", ranks)
    width = whole_number("element_bytes", element_bytes)
    links: Counter[tuple[int, int]] = Counter()
    for sender, receiver, count in flows(elements, ranks):
        links[sender, receiver] += count * width
    return Traffic(ranks, {link: count for link, count in links.items() if count})


_Flows = Iterator[tuple[int, int, int]]  # sender, receiver, elements


def _star(elements: int, ranks: int) -> _Flows:
    for other in range(1, ranks):
        yield other, 0, elements
        yield 0, other, elements


def _tree(elements: int, ranks: int) -> _Flows:
    for rank in range(1, ranks):
        parent = rank & (rank - 1)  # without its lowest bit
        yield rank, parent, elements
        yield parent, rank, elements


def _unchunked_ring(elements: int, ranks: int) -> _Flows:
    for rank in range(ranks):
        yield rank, (rank + 1) % ranks, (ranks - 1) * elements


def _ring(elements: int, ranks: int) -> _Flows:
    yield from _reduce_scatter(elements, ranks)
    yield from _all_gather(elements, ranks)


def _reduce_scatter(elements: int, ranks: int) -> _Flows:
    """Each rank passes on all chunks but its own, which it ends with."""
    for rank, own in enumerate(_chunks(elements, ranks)):
        yield rank, (rank + 1) % ranks, elements - own


def _all_gather(elements: int, ranks: int) -> _Flows:
    """Each rank passes on all chunks but its right neighbor's, who began with it."""
    chunks = _chunks(elements, ranks)
    for rank in range(ranks):
        right = (rank + 1) % ranks
        yield rank, right, elements - chunks[right]


def _recursive_doubling(elements: int, ranks: int) -> _Flows:
    yield from _folding(elements, ranks)
    for _, rank, partner, _ in _meetings(ranks):
        yield rank, partner, elements


def _halving_doubling(elements: int, ranks: int) -> _Flows:
    """Halving begins with the partner farthest away, doubling ends with it.

    Halving, a rank sends the half of their common chunks that its partner keeps, and doubling the half that
    it kept itself: all of them together.
    """
    yield from _folding(elements, ranks)
    chunks = _chunks(elements, len(staying(ranks)))
    for place, rank, partner, distance in _meetings(ranks):
        first = place - place % (2 * distance)
        yield rank, partner, sum(chunks[first : first + 2 * distance])


def _meetings(ranks: int) -> Iterator[tuple[int, int, int, int]]:
    """A rank's place among those staying, the rank, its partner, and how far their places are apart."""
    remaining = staying(ranks)
    for distance in powers_of_two(below=len(remaining)):
        for place, rank in enumerate(remaining):
            yield place, rank, remaining[place ^ distance], distance


def _folding(elements: int, ranks: int) -> _Flows:
    for even in range(0, 2 * (ranks - len(staying(ranks))), 2):
        yield even, even + 1, elements
        yield even + 1, even, elements


def _chunks(elements: int, ranks: int) -> list[int]:
    """Elements in each chunk of torch.tensor_split."""
    whole, rest = divmod(elements, ranks)
    return [whole + (chunk < rest) for chunk in range(ranks)]


_FLOWS = Catalog("algorithm", {
    "star": _star,
    "tree": _tree,
    "recursive-doubling": _recursive_doubling,
    "halving-doubling": _halving_doubling,
    "unchunked-ring": _unchunked_ring,
    "ring": _ring,
    "reduce-scatter": _reduce_scatter,
    "all-gather": _all_gather,
})
