"""The course's own."""

from course_lib import all_reduce, ring_table


def chunk_to_send(rank, step, ranks):
    return ring_table.messages(ranks, step)[rank].chunk


def reduce_scatter(row):
    all_reduce.reduce_scatter(row)


def all_gather(row):
    all_reduce.all_gather(row)


def ring(tensor):
    all_reduce.ring(tensor)
