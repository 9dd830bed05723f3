"""The text that the course's small GPTs learn: the course's own prose.

    tokens = corpus.tokens()                     # bytes of all lessons' text, 0 to 255
    inputs, targets = corpus.batch(tokens, batch=8, sequence=64, generator=generator)

A token is a byte of UTF-8, so there is no tokenizer, and nothing is downloaded.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import torch

from course_lib.working_copy import COURSE_ROOT

VOCAB = 256


@cache
def text() -> str:
    """The text cells of all lessons, in the order of the course.

    Raises FileNotFoundError when the course's notebooks are not beside the installed library.
    """
    notebooks = sorted((COURSE_ROOT / "notebooks").glob("*.ipynb"))
    if not notebooks:
        raise FileNotFoundError("the course's notebooks are not there: install the course as README.md says")
    return "\n\n".join(cell for notebook in notebooks for cell in _text_cells(notebook))


def tokens() -> torch.Tensor:
    """The bytes of ``text()``, int64."""
    return torch.frombuffer(bytearray(text().encode()), dtype=torch.uint8).long()


def batch(
    tokens: torch.Tensor, batch: int, sequence: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets, each (batch, sequence): pieces from random places, and what comes next in each.

    Pieces are drawn with replacement, so that samples are independent, as the noise scale assumes.
    """
    return pieces(tokens, starts(tokens, batch, sequence, generator), sequence)


def starts(tokens: torch.Tensor, batch: int, sequence: int, generator: torch.Generator) -> torch.Tensor:
    """Where each of ``batch`` pieces begins, int64."""
    return torch.randint(len(tokens) - sequence, (batch,), generator=generator)


def pieces(tokens: torch.Tensor, starts: torch.Tensor, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets, each (len(starts), sequence): the pieces that begin there."""
    found = tokens[starts[:, None] + torch.arange(sequence + 1)]
    return found[:, :-1], found[:, 1:]


def _text_cells(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
