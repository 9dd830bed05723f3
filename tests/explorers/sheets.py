"""What is drawn on a sheet whose unit is the inch: bars and texts, as boxes."""

import itertools

import numpy as np
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.transforms import Bbox


def text_boxes(axes):
    """Boxes of all texts that change, from the top left corner."""
    found = []
    for artist in axes.collections:
        if isinstance(artist, PathCollection):
            for path, (x, y) in zip(artist.get_paths(), artist.get_offsets(), strict=True):
                box = path.get_extents()
                found.append(Bbox([(x + box.x0, y - box.y1), (x + box.x1, y - box.y0)]))
    return found


def bars(axes, shapes=None):
    """Color, left, right and top of each bar, where there are no other shapes or it is said which ones."""
    if shapes is None:
        (shapes,) = [artist for artist in axes.collections if isinstance(artist, PolyCollection)]
    for path, color in zip(shapes.get_paths(), shapes.get_facecolor(), strict=True):
        (left, top), (right, _) = path.vertices.min(axis=0), path.vertices.max(axis=0)
        yield to_hex(color).upper(), left, right, top


def assert_readable(figure, page):
    """All texts, the fixed ones, too, are on the page and clear of each other."""
    figure.draw_without_rendering()
    height = figure.get_figheight()
    fixed = [text for axes in figure.axes for text in axes.texts if text.get_text()]
    for axes in figure.axes:
        if axes is not page:
            fixed += [axes.xaxis.label, *axes.get_xticklabels()]
    legends = [*figure.legends, *filter(None, [page.get_legend()])]
    boxes = text_boxes(page)
    for artist in [*fixed, *legends]:
        box = artist.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        boxes.append(Bbox([(box.x0, height - box.y1), (box.x1, height - box.y0)]))
    for box in boxes:
        assert 0 <= box.x0 and box.x1 <= figure.get_figwidth() and 0 <= box.y0 and box.y1 <= height, box
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other), (one, other)


def line_through(pairs):
    """Slope and offset of places over values, which must be on a line."""
    values, places = np.array(list(pairs)).T
    slope, offset = np.polyfit(values, places, 1)
    assert np.abs(slope * values + offset - places).max() < 1e-6
    return slope, offset
