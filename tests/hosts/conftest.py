"""Machines need what real links need, and fail where those are a must."""

from tests.links.conftest import real_links

__all__ = ["real_links"]
