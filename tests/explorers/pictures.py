"""What is drawn, pixel by pixel, and what drawing it imports."""

import subprocess
import sys

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg


def pixels(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def assert_same_pixels(fast, choice, figure):
    """A drawing that goes from choice to choice, as behind the sliders, shows what a fresh figure shows."""
    drawing, canvas = fast
    drawing.show(choice)
    assert (canvas.pixels() == pixels(figure)).all()


def assert_nothing_else_is_imported(code):
    """In a process of its own, since other tests have imported pyplot and torch."""
    code = f"import sys\n{code}\nprint('matplotlib.pyplot' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
