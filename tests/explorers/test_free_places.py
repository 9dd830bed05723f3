"""Texts find room in a region, clear of what is taken, or are left out."""

import numpy as np
import pytest

from course_lib.explorers.free_places import Places
from course_lib.ring_drawing import text_width


def region_of(places, left, right):
    inside = (left < places.columns) & (places.columns < right)
    return np.broadcast_to(inside, (len(places.rows), len(places.columns)))


def test_a_text_stands_in_the_middle_of_its_region_or_near_a_height():
    places = Places(1, 5, 0, 2)
    ((text, x, y),) = places.put(["name"], region_of(places, 1, 3))
    assert (text, x, y) == ("name", pytest.approx(2, abs=0.05), pytest.approx(1, abs=0.05))
    ((_, x, y),) = places.put(["other"], region_of(places, 3, 5), near_row=2.5)
    assert x == pytest.approx(4, abs=0.05) and 1.8 < y < 2


def test_a_text_keeps_clear_of_what_is_taken_and_of_other_texts():
    places = Places(1, 5, 0, 2)
    places.take(3, 1, 1, 0.4)
    found = [each for _ in range(20) for each in places.put(["name"], region_of(places, 1, 5))]
    half = text_width("name") / 2
    boxes = [(x - half, x + half, y - 0.08, y + 0.08) for _, x, y in found]
    boxes.append((2.5, 3.5, 0.8, 1.2))
    assert len(found) == 20
    for n, (left, right, top, bottom) in enumerate(boxes):
        for other in boxes[:n]:
            assert right < other[0] or other[1] < left or bottom < other[2] or other[3] < top


def test_the_first_text_with_room_is_taken_and_none_where_there_is_no_room():
    places = Places(1, 5, 0, 2)
    narrow = region_of(places, 1, 1.7)
    assert [text for text, _, _ in places.put(["much too long a name", "short"], narrow)] == ["short"]
    assert places.put(["much too long a name"], narrow) == []
    assert places.put(["short"], np.zeros_like(narrow)) == []


def test_no_text_crosses_a_border():
    places = Places(1, 5, 0, 2)
    regions = np.where(region_of(places, 0, 3), 1, 2)
    places.take_borders(regions)
    ((_, x, _),) = places.put(["a name"], np.ones_like(regions, bool))
    assert abs(x - 3) > text_width("a name") / 2
