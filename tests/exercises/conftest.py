"""For tests of answers that hang."""

import pytest

from course_lib.checks import playing


@pytest.fixture
def short_limits(monkeypatch):
    """Answers that hang need not hang for long."""
    monkeypatch.setattr(playing, "SECONDS_WITHOUT_PROGRESS", 2)
    monkeypatch.setattr(playing, "SECONDS_FOR_ONE_WORLD_SIZE", 10)
