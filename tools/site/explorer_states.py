"""A page of the explorers with their sliders in several places, for readers without a running kernel.

Pictures, their descriptions and the numbers below them come from the explorers' own pure functions.
"""

from html import escape
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from course_lib.explorers import (
    all_reduce_costs,
    batch_size,
    buckets,
    cluster,
    data_parallel_map,
    memory_wall,
    overlap,
    ring_steps,
    star_link,
    streams,
)

FOLDER = "explorers"  # of the pictures, beside the page
HEAD = """# Explorers in pictures

In the lessons, sliders stand above these pictures, and the pictures follow them. Here each explorer is shown
with its sliders in three places. The numbers below a picture are those that the lesson shows beside it.
"""


class Tour(NamedTuple):
    """An explorer, the lesson that has it, and states of it: in words, and as its Choice."""

    explorer: ModuleType
    lesson: str
    title: str
    states: dict[str, Any]


TOURS = [
    Tour(memory_wall, "01_memory_wall", "What fills a GPU's memory", {
        "Llama-2-7B: one GPU alone, and 8 that hold the whole of it each": memory_wall.Choice(),
        "The optimizer state sharded over 8 GPUs": memory_wall.Choice(zero_stage=1),
        "A whole sequence of 8,192 tokens, on an H200": memory_wall.Choice(card="h200", sequence=8192),
    }),
    Tour(star_link, "02_data_parallel", "What the star's root must carry", {
        "8 MiB over links of 400 Mbit/s, on 4 ranks": star_link.Choice(),
        "On 180 ranks": star_link.Choice(ranks=180),
        "GPT-2's gradients on 1,024 ranks of a fast network": star_link.Choice(1024, 248_879_616, 50e9),
    }),
    Tour(ring_steps, "03_ring_all_reduce", "The ring, step by step", {
        "The first message of each rank": ring_steps.Choice(4, 1),
        "The end of the first half": ring_steps.Choice(4, 3),
        "The end": ring_steps.Choice(4, 6),
    }),
    Tour(all_reduce_costs, "04_what_the_ring_costs", "What each all-reduce costs", {
        "GPT-2's gradients on the 8 GPUs of one machine": all_reduce_costs.Choice(),
        "1 KiB on 4,096 ranks of a cluster": all_reduce_costs.Choice(4096, 1024, 10e-6, 50e9),
        "Llama-2-7B's gradients on the same": all_reduce_costs.Choice(4096, 13_476_831_232, 10e-6, 50e9),
    }),
    Tour(batch_size, "05_gradient_accumulation", "What a larger batch is worth, and what it costs", {
        "8 ranks, 4 micro-batches of 4 sequences": batch_size.Choice(),
        "As many as make the batch the critical one": batch_size.Choice(micro_batches=32),
        "256 micro-batches: more examples than they are worth": batch_size.Choice(micro_batches=256),
    }),
    Tour(buckets, "06_buckets_and_hooks", "Which gradients share a bucket", {
        "Buckets of 25 MiB, filled in reverse order": buckets.Choice(),
        "Filled in the order of registration": buckets.Choice(order="forward"),
        "All gradients in one bucket": buckets.Choice(bucket_mb=inf),
    }),
    Tour(overlap, "07_overlap_and_utilization", "What hides behind the backward pass", {
        "Two ranks, 400 Mbit/s, buckets of 1 MiB": overlap.Choice(),
        "A link of 10 Gbit/s": overlap.Choice(rate=1.25e9),
        "Four micro-batches on 64 ranks": overlap.Choice(ranks=64, micro_batches=4),
    }),
    Tour(streams, "07_overlap_and_utilization", "Two CUDA streams, and what races", {
        "With all waits": streams.Choice(),
        "The reduction does not wait for the copy": streams.Choice(wait_ready=False),
        "The allocator knows nothing of the second stream": streams.Choice(record=False),
    }),
    Tour(cluster, "08_beyond_one_machine", "A step on up to 4,096 ranks", {
        "64 ranks, some of them late": cluster.Choice(),
        "Nobody late": cluster.Choice(jitter=0.0),
        "One link that is 10 times slower": cluster.Choice(jitter=0.0, slower=10.0),
    }),
    Tour(data_parallel_map, "08_beyond_one_machine", "Where data parallelism loses", {
        "8,192 tokens in a micro-batch": data_parallel_map.Choice(),
        "Four times as many": data_parallel_map.Choice(tokens=32_768),
        "Without latency": data_parallel_map.Choice(latency=0.0),
    }),
]  # fmt: skip


def write_page(folder: Path) -> str:
    """Draw all states into a folder beside the page; returns the page in Markdown."""
    (folder / FOLDER).mkdir()
    return "\n\n".join([HEAD, *(_section(folder, tour) for tour in TOURS)])


def _section(folder: Path, tour: Tour) -> str:
    name = tour.explorer.__name__.rpartition(".")[2]
    states = (_state(folder, tour.explorer, f"{name}-{number}", *state)
              for number, state in enumerate(tour.states.items(), 1))  # fmt: skip
    lesson = f"From [lesson {tour.lesson[:2]}]({tour.lesson}.ipynb)."
    return "\n\n".join([f"## {tour.title}", lesson, *states])


def _state(folder: Path, explorer: ModuleType, name: str, words: str, choice: Any) -> str:
    # What Jupyter shows, so that the picture has the size and the description that it has in a lesson.
    shown, metadata = explorer.figure(choice)._repr_mimebundle_()
    file = f"{FOLDER}/{name}.png"
    (folder / file).write_bytes(shown["image/png"])
    looks = metadata["image/png"]
    description = escape(" ".join(looks["alt"].split()))
    picture = f'<img src="{file}" alt="{description}" width="{looks["width"]}px">'
    return "\n\n".join([f"### {words}", picture, explorer.readout(choice).html()])
