"""The colors can be told apart, by people with each kind of color vision, and be written on."""

from itertools import combinations

import numpy as np
import pytest

from course_lib.palette import COLORS, color_of, ink_on, relative_luminance

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency",
# 2009: severity 1.0, for linear RGB.
VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
SRGB_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])
FAR_ENOUGH = 25  # in CIELAB; about 2 is the least difference that is seen side by side


def lab(color: str, vision: str) -> np.ndarray:
    """CIELAB coordinates of ``#RRGGBB`` as seen with this color vision."""
    rgb = np.array([int(color[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = SRGB_TO_XYZ @ np.clip(VISION[vision] @ linear, 0, 1) / WHITE
    x, y, z = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(lab(one, vision) - lab(other, vision)))


def test_the_simulation_confuses_what_color_blind_people_confuse():
    red, green = "#C8553D", "#7F8A2E"
    assert distance(red, green, "usual") > 2 * FAR_ENOUGH
    assert distance(red, green, "deuteranopia") < FAR_ENOUGH


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colors_can_be_told_apart(vision):
    near = {
        (one, other): round(distance(COLORS[one], COLORS[other], vision))
        for one, other in combinations(COLORS, 2)
        if distance(COLORS[one], COLORS[other], vision) < FAR_ENOUGH
    }
    assert near == {}


@pytest.mark.parametrize("kind", COLORS)
def test_ink_is_readable_on_it(kind):
    luminance = relative_luminance(COLORS[kind])
    ink = {"black": 0.0, "white": 1.0}[ink_on(COLORS[kind])]
    lighter, darker = max(ink, luminance), min(ink, luminance)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5  # WCAG 2.1, level AA


def test_relative_luminance_of_known_colors():
    assert relative_luminance("#000000") == 0
    assert relative_luminance("#FFFFFF") == pytest.approx(1)
    assert relative_luminance("#777777") == pytest.approx(0.1845, abs=1e-4)


def test_an_unknown_kind_is_named_with_those_that_there_are():
    with pytest.raises(ValueError, match="kind='network': expected one of 'weights', 'gradients'"):
        color_of("network")
