"""A message as a rank posted it; plain data, known to checks and ranks alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One send or receive, as a rank posted it.

    ``batch`` numbers the calls of batch_isend_irecv, None outside of one.  ``waited`` is how many messages
    the rank had posted when it first waited for (or asked about) this one; None if it never did.
    """

    kind: str  # send or recv
    peer: int
    tag: int
    batch: int | None
    waited: int | None = None
