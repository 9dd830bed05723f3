"""What an error looks like where another rank is gone: a consequence, not a cause."""

from __future__ import annotations

import torch.distributed as dist

_SIGNS = (
    "gloo/", "Timed out waiting", "connectFullMesh",
    "Connection closed by peer", "Connection reset by peer", "Broken pipe",
    # NCCL's.  What else it raises may be a rank's own fault, such as two ranks on one GPU.
    "remote process exited", "ncclRemoteError", "communicator was aborted",
)  # fmt: skip


def is_lost_rank(error: BaseException) -> bool:
    """Whether this is what gloo, NCCL and torchrun's store raise when another rank is gone or silent."""
    if isinstance(error, dist.DistNetworkError | dist.DistStoreError):
        return True
    try:
        message = str(error)
    except Exception:  # of a learner's own class
        return False
    return isinstance(error, RuntimeError) and any(sign in message for sign in _SIGNS)
