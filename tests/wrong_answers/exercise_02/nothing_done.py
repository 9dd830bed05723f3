"""Hopes for the seed."""

import torch

PART = "broadcast"
SENTENCE = "No message was sent, and what was given is as before."


def broadcast(tensors):
    torch.manual_seed(0)
