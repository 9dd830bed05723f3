"""All-reduce by hand: afterwards every rank's tensor holds the sum of all ranks' tensors.

Three ways to the same sum, in point-to-point messages of torch.distributed, so that each message can be
seen and counted.  S is the tensor's size in bytes, N the number of ranks.

===================  =========================================  =====================================
function             sent by each rank                          who waits for whom
===================  =========================================  =====================================
``star``             S, and (N-1) S by rank 0                   all for rank 0
``unchunked_ring``   (N-1) S                                    each for its left neighbor, N-1 times
``ring``             2 (N-1)/N S: the least that is possible    the same, 2 (N-1) times, for S/N each
===================  =========================================  =====================================

All of them take tensors of any shape and layout, on any number of ranks, and work in place.  Elements travel
and are added in the tensor's own type: a bfloat16 costs 2 bytes a message, each of the N-1 additions rounds
to it, and a float16 sum above 65,504 becomes infinite, so divide *before* the sum where an average is meant.
Integers wrap around as torch's do.  The sizes and types must be the same on all ranks; ``ranks.run`` compares
them before data moves.  On three ranks or more, both rings send 2 MiB or more in two messages
(``_in_turns``).

On GPUs the messages go through NCCL in the order of the current stream, and the host never waits.  (Written
for it, and not yet run there.)
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist

_DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
)  # fmt: skip
_LONG = 2**21  # bytes of a chunk that is cut in two: below, a second message costs more than it hides

Chunks = Sequence[torch.Tensor]
Messages = list[dist.Work]
Steps = Callable[[Chunks, dist.ProcessGroup | None], Iterator[None]]


def ring(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Sum a tensor over all ranks in place: a reduce-scatter, then an all-gather, around a ring.

    Each rank sends 2 (N-1)/N of the tensor, the least that any all-reduce can do (Patarasuk and Yuan, 2009).
    All ranks end with identical bits, since each chunk is summed in one order and then copied.

    Raises ValueError for tensors that can't be summed in place.
    """
    with _as_row(tensor) as row:
        _in_turns(_both_halves, row.tensor_split(_world_size(group)), group)


def reduce_scatter(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """The ring's first half: leaves chunk r of the sum on rank r, and partial sums in the other chunks.

    Chunk r is ``tensor.flatten().tensor_split(N)[r]``.  Each rank sends (N-1)/N of the tensor.
    """
    with _as_row(tensor) as row:
        _in_turns(_reduce_scatter, row.tensor_split(_world_size(group)), group)


def all_gather(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """The ring's second half: spreads chunk r of rank r to all ranks, over what their chunks r held.

    Chunk r is ``tensor.flatten().tensor_split(N)[r]``.  Each rank sends (N-1)/N of the tensor.
    """
    with _as_row(tensor) as row:
        _in_turns(_all_gather, row.tensor_split(_world_size(group)), group)


def scatter(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Give rank r the chunk r of rank 0's tensor, over what its own chunk r held; other chunks stay.

    Chunk r is ``tensor.flatten().tensor_split(N)[r]``.  With an ``all_gather`` after it, all ranks have rank
    0's tensor, and rank 0 has sent less than two of them.
    """
    with _as_row(tensor) as row:
        chunks, rank = row.tensor_split(_world_size(group)), dist.get_rank(group)
        peers = {other: dist.isend for other in range(1, len(chunks))} if rank == 0 else {0: dist.irecv}
        _wait(_post(*(
            dist.P2POp(operation, chunks[peer or rank], group=group, group_peer=peer)
            for peer, operation in peers.items()
        )))  # fmt: skip


def _both_halves(chunks: Chunks, group: dist.ProcessGroup | None) -> Iterator[None]:
    yield from _reduce_scatter(chunks, group)
    yield from _all_gather(chunks, group)


def _reduce_scatter(chunks: Chunks, group: dist.ProcessGroup | None) -> Iterator[None]:
    rank, ranks = dist.get_rank(group), len(chunks)
    arriving = torch.empty_like(chunks[0])  # tensor_split puts the longest chunk first
    for step in range(ranks - 1):
        outgoing, incoming = chunks[(rank - step - 1) % ranks], chunks[(rank - step - 2) % ranks]
        received = arriving[: len(incoming)]
        messages = _pass_on(outgoing, received, group)
        yield
        _wait(messages)
        incoming += received


def _all_gather(chunks: Chunks, group: dist.ProcessGroup | None) -> Iterator[None]:
    rank, ranks = dist.get_rank(group), len(chunks)
    for step in range(ranks - 1):
        messages = _pass_on(chunks[(rank - step) % ranks], chunks[(rank - step - 1) % ranks], group)
        yield
        _wait(messages)


def _in_turns(steps: Steps, chunks: Chunks, group: dist.ProcessGroup | None) -> None:
    """Run a ring, or a half of it, with long chunks in two pieces that take turns at every ``yield``.

    While one piece is under way, the other one is added: the links need not wait for the additions.
    Two ranks have a single connection, where a piece's word "ready" would queue behind the other's data.
    """
    cut = _world_size(group) > 2 and chunks[0].nbytes >= _LONG
    pieces = zip(*(chunk.tensor_split(2) for chunk in chunks), strict=True) if cut else [chunks]
    for _ in itertools.zip_longest(*[steps(piece, group) for piece in pieces]):
        pass


def _pass_on(outgoing: torch.Tensor, incoming: torch.Tensor, group: dist.ProcessGroup | None) -> Messages:
    """Start to send to the right neighbor and to receive from the left one.

    The receive is posted first, so that its bytes need not wait for the send.  Both go in one batch, which
    NCCL needs: it runs messages in order, and two ranks that send first would wait for each other.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    return _post(
        dist.P2POp(dist.irecv, incoming, group=group, group_peer=(rank - 1) % ranks),
        dist.P2POp(dist.isend, outgoing, group=group, group_peer=(rank + 1) % ranks),
    )


def _post(*messages: dist.P2POp) -> Messages:
    with_bytes = [message for message in messages if message.tensor.numel()]
    return dist.batch_isend_irecv(with_bytes) if with_bytes else []


def _wait(messages: Messages) -> None:
    for message in messages:
        message.wait()


def unchunked_ring(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Sum a tensor over all ranks in place by passing whole tensors around: N/2 times the ring's traffic.

    Every rank adds in an order of its own, so with three ranks or more their sums differ in the last bits.

    Raises ValueError for tensors that can't be summed in place.
    """
    with _as_row(tensor) as row:
        _in_turns(_whole_tensors, [row], group)


def _whole_tensors(chunks: Chunks, group: dist.ProcessGroup | None) -> Iterator[None]:
    (row,) = chunks
    passing, arriving = row.clone(), torch.empty_like(row)
    for _ in range(dist.get_world_size(group) - 1):
        messages = _pass_on(passing, arriving, group)
        yield
        _wait(messages)
        row += arriving
        passing, arriving = arriving, passing


def star(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Sum a tensor over all ranks in place: rank 0 receives all tensors, adds them, and sends the sum back.

    Rank 0's link carries 2 (N-1) times the tensor, all others wait for it.

    Raises ValueError for tensors that can't be summed in place.
    """
    with _as_row(tensor) as row:
        others = range(1, _world_size(group))
        if dist.get_rank(group) == 0:
            arriving = torch.empty_like(row)
            for other in others:
                _wait(_post(dist.P2POp(dist.irecv, arriving, group=group, group_peer=other)))
                row += arriving
            _wait(_post(*(dist.P2POp(dist.isend, row, group=group, group_peer=other) for other in others)))
        else:
            _wait(_post(dist.P2POp(dist.isend, row, group=group, group_peer=0)))
            _wait(_post(dist.P2POp(dist.irecv, row, group=group, group_peer=0)))


def _world_size(group: dist.ProcessGroup | None) -> int:
    if dist.get_rank(group) < 0:
        raise ValueError(f"rank {dist.get_rank()} is not in this group: expected a call by its members")
    return dist.get_world_size(group)


@contextlib.contextmanager
def _as_row(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor's elements in one contiguous row; written back at the end where the row had to be a copy."""
    _check(tensor)
    row = tensor.detach().resolve_neg().contiguous().view(-1)
    yield row
    if tensor.is_neg() or not tensor.is_contiguous():
        tensor.detach().copy_(row.view(tensor.shape))
    else:  # what arrives in place is a change that autograd would not notice
        torch.autograd.graph.increment_version(tensor)


def _check(tensor: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"tensor={tensor!r}: expected a torch.Tensor")
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout}: expected a dense one; call to_dense() first")
    if tensor.dtype.is_complex:
        raise ValueError(
            f"a tensor of {tensor.dtype}: expected real numbers; torch.view_as_real(tensor.resolve_conj()) "
            "has its parts, which may be summed in its place"
        )
    if tensor.dtype == torch.bool:
        raise ValueError("a tensor of torch.bool: a sum of truth values is a count; convert it to integers")
    if tensor.dtype not in _DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
        raise ValueError(f"a tensor of {tensor.dtype}, which torch can't add: expected one of {names}")
    if tensor.is_meta or tensor.is_inference():
        raise ValueError(f"a{' meta' if tensor.is_meta else 'n inference'} tensor can't be changed in place")
    repeats = (size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() and any(repeats):
        raise ValueError("an expanded tensor shares memory between its elements; call clone() first")
