"""A message as a rank posted it; plain data, known to checks and ranks alike."""

from __future__ import annotations

from dataclasses import dataclass

READ, CHANGED, SHARED = "read", "changed", "shared"


@dataclass(frozen=True)
class Message:
    """One send or receive, as a rank posted it.

    ``peer`` is the other rank, numbered in the default group; None for a receive from anybody.  ``batch``
    numbers the calls of batch_isend_irecv, None outside of one.  ``waited`` is how many messages the rank had
    posted when it first waited for (or asked about) this one; None if it never did.  ``fault`` is what was
    done to its memory before that: READ (received into it), CHANGED (sent from it), SHARED (two messages are
    received into it), or "".
    """

    kind: str  # send or recv
    peer: int | None
    tag: int
    batch: int | None
    waited: int | None = None
    bytes: int = 0
    fault: str = ""
