"""For tests of explorers that a module's ``explorer`` fixture has made."""

from dataclasses import asdict

import pytest

from tests.explorers.controls import controls_of


@pytest.fixture
def controls(explorer):
    """By the field of Choice, and set back afterwards."""
    by_name = controls_of(explorer)
    yield by_name
    for name, value in asdict(type(explorer.choice)()).items():
        by_name[name].value = value
