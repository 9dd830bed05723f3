"""What a notebook shows of its ranks."""

import pytest

from course_lib import ranks
from course_lib.ranks import current, display


class Bar:
    def __init__(self, total, description):
        self.total, self.description, self.n, self.is_open = total, description, 0, True

    def update(self, steps):
        self.n += steps

    def close(self):
        self.is_open = False


class Book:
    def advance(self):
        pass


def test_each_loop_has_a_progress_bar_of_its_own(monkeypatch, tmp_path):
    bars = []
    monkeypatch.setattr(display, "_progress_bar", lambda *about: bars.append(Bar(*about)) or bars[-1])
    monkeypatch.setattr(current, "_current", current._Current(0, "cpu", tmp_path / "live", Book()))
    for _ in ranks.progress(range(5), description="epoch"):
        for step in ranks.progress(range(3), description="step"):
            if step == 1:
                break
    for _ in ranks.progress(iter("ab")):
        pass
    live = display.Live([tmp_path / "live"])
    live.show_new()
    shown = [(bar.description, bar.total, bar.n) for bar in bars]
    assert sorted(shown) == [("", None, 2), ("epoch", 5, 5), *[("step", 3, 1)] * 5]
    assert [bar.description for bar in bars if bar.is_open] == ["step"] * 5  # left before their ends
    live.close()
    assert not any(bar.is_open for bar in bars)


@pytest.mark.parametrize("rank", [2, -1])
def test_output_of_a_rank_that_was_not_there(monkeypatch, rank):
    monkeypatch.setattr(display, "_last_output", [b"one", b"two"])
    assert ranks.output(1) == "two" and ranks.output() == "onetwo"
    with pytest.raises(ValueError, match=f"rank={rank}: the last run had 2 ranks"):
        ranks.output(rank)
