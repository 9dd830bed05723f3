"""The memory behind tensors: bytes that several tensors share are counted once.

Stands on torch alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages behind ``tensors``, each storage once: views and tied weights add nothing."""
    storages = {key_of(storage): storage for tensor in tensors for storage in [tensor.untyped_storage()]}
    return sum(storage.nbytes() for storage in storages.values())


def key_of(storage: torch.UntypedStorage) -> int:
    """The same for all views of a storage, and its own for as long as the storage lives."""
    return storage._cdata
