"""Whether an error is a consequence of another rank's end."""

import pytest
import torch.distributed as dist

from course_lib.ranks.lost import is_lost_rank


class NoText(RuntimeError):
    def __str__(self):
        raise ValueError("no text")


@pytest.mark.parametrize(("error", "is_lost"), [
    (RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:5"), True),
    (RuntimeError("[../gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 2000ms for recv"), True),
    (RuntimeError("Timed out waiting for clients"), True),
    (RuntimeError("Gloo connectFullMesh failed with Connection reset by peer"), True),
    (RuntimeError("writev [10.0.0.2]:5: Broken pipe"), True),
    (dist.DistBackendError("NCCL error: remote process exited or there was a network error"), True),
    (dist.DistBackendError("NCCL communicator was aborted on rank 1"), True),
    (dist.DistBackendError("NCCL error: invalid usage. Duplicate GPU detected"), False),
    (dist.DistNetworkError("The client socket has timed out after 2000ms"), True),
    (dist.DistStoreError("wait timeout after 2000ms"), True),
    (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    (ValueError("Broken pipe"), False),
    (NoText(), False),
])  # fmt: skip
def test_a_lost_rank_is_told_from_other_errors(error, is_lost):
    assert is_lost_rank(error) is is_lost
