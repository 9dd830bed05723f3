"""What a rank of torchrun says of what it alone knows, when it can't go on.

Under ``ranks.run`` the report says it, from all ranks' logbooks; torchrun has none.
"""

from __future__ import annotations

import os
import re
import socket

from course_lib.ranks import torchrun
from course_lib.ranks.frames import folded, is_library, lines_of
from course_lib.ranks.lost import is_lost_rank

_PLACE_IN_GLOO = re.compile(r"^\[[^\]]*\] *")


def _about_interface(reason: str) -> str:
    """What gloo leaves unsaid of the network interface that it was told, or has chosen; else ""."""
    if "ifa != nullptr" in reason:
        name = os.environ.get("GLOO_SOCKET_IFNAME")
        return f"GLOO_SOCKET_IFNAME={name!r}: this machine has no such network interface, with an address."
    if "remote=[127." in reason and torchrun.world_size() > int(os.environ.get("LOCAL_WORLD_SIZE", 0)):
        return (
            "ranks of other machines were looked for on this one (127.0.0.1). GLOO_SOCKET_IFNAME must name "
            "the network interface, such as eth0, on which the machines reach each other."
        )
    return ""


def _said(error: BaseException, timeout: float) -> str:
    reason = _PLACE_IN_GLOO.sub("", str(error)).partition("\n")[0]
    if not is_lost_rank(error):
        return f"{type(error).__name__}: {reason}"
    reason = reason.partition(". ")[0]  # what gloo advises to do is not what helps here
    return f"another rank is gone, or has not answered for {timeout:g} s ({reason})."


def explained(error: BaseException, timeout: float) -> str:
    """Rank, machine and step, what happened, and the learner's lines."""
    where = ", ".join([f"rank {torchrun.rank()} on {socket.gethostname()}", *getattr(error, "__notes__", [])])
    said = _about_interface(str(error.__cause__ or error)) or _said(error, timeout)
    lines = lines_of(error.__traceback__)
    is_learners = any(not is_library(line.file) for line in lines)
    shown = folded(lines) if is_learners else [] if is_lost_rank(error) else folded(lines)[-1:]
    return "\n".join([f"{where}: {said}", *(f"  {line}" for line in shown)])
