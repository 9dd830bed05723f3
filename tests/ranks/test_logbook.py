"""A logbook is read by others while its rank goes on writing."""

import struct

import pytest

from course_lib.ranks import logbook
from course_lib.ranks.logbook import RECORDS, Logbook, Operation


@pytest.fixture
def path(tmp_path):
    logbook.create(tmp_path / "logbook")
    return tmp_path / "logbook"


def operation(description: str) -> Operation:
    return Operation("send", "0->1", 0, "", description, (1,), "a.py", 3, "f")


class OvertakenHead:
    """The form of a record's head; whoever reads one in it is overtaken by the writer."""

    def __init__(self, form: struct.Struct, overtake):
        self.size, self.pack_into = form.size, form.pack_into
        self._form, self._overtake = form, overtake

    def unpack_from(self, *where):
        fields = self._form.unpack_from(*where)
        overtake, self._overtake = self._overtake, lambda: None
        overtake()
        return fields


def test_an_operation_that_is_overwritten_while_it_is_read_is_unknown(path, monkeypatch):
    writer, reader = Logbook(path), Logbook(path)
    writer.post(operation("short"))

    def overtake():
        for _ in range(RECORDS):
            writer.post(operation("a text that is longer than that of the record in whose place it is"))

    monkeypatch.setattr(logbook, "_HEAD", OvertakenHead(logbook._HEAD, overtake))
    assert reader.operation(0) is None
    assert reader.operation(RECORDS).description.startswith("a text that is longer")


def test_operations_come_back_as_they_were_posted(path):
    writer, reader = Logbook(path), Logbook(path)
    for number in range(RECORDS + 2):
        writer.post(operation(f"number {number}"))
    kept = [f"number {number}" for number in range(2, RECORDS + 2)]
    assert [each.description for each in reader.operations()] == kept
    assert reader.operation(1) is None and reader.operation(2) == operation("number 2")
