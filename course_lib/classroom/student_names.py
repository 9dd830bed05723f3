"""Text that students chose, as it is shown: their names, and what their code has printed.

A student's name is the name of a file that was handed in.  It can hold anything: control characters that
steer a terminal, marks that turn the direction of writing, HTML, 255 bytes that are no text.
"""

from __future__ import annotations

import hashlib
import re

_LONGEST_STEM = 40
_LONGEST_TEXT = 20_000


def shown(name: str) -> str:
    """``name`` with everything that can't be seen escaped, as in a Python string; no two look the same."""
    return "".join(character if _is_plain(character) else _escaped(character) for character in name)


def readable(text: str) -> str:
    """Lines of text, with everything else that can't be seen escaped; not longer than can be read."""
    text = shortened(text.expandtabs(4), _LONGEST_TEXT)
    return "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in text)


def _is_plain(character: str) -> bool:
    return character.isprintable() and character != "\\"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def shortened(text: str, longest: int) -> str:
    """For a line that must stay short."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def file_stem(name: str) -> str:
    """A name for a student's files: safe on every system, and of its own for every student."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name)[:_LONGEST_STEM].strip("-") or "student"
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
