"""As if the tensor were padded."""

PART = "sent_bytes"
SENTENCE = "The chunks are not all alike where N does not divide the elements"


def sent_bytes(algorithm, rank, ranks, elements, element_bytes):
    if algorithm == "star":
        sent = (ranks - 1) * elements if rank == 0 else elements
    elif algorithm == "unchunked-ring":
        sent = (ranks - 1) * elements
    else:
        sent = 2 * (ranks - 1) * -(-elements // ranks)
    return sent * element_bytes
