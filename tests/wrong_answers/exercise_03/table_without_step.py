"""The author of lesson 03's wrong ring: rank r sends chunk r in every step."""

PART = "chunk_to_send"
SENTENCE = "Each rank sends the same chunk in every step, so what has arrived is never passed on"


def chunk_to_send(rank, step, ranks):
    return rank
