"""``course train``: a small GPT learns the course's own text, on one rank or many, on one machine or several.

    course train --ranks 2 --steps 100 --checkpoint my_run
    torchrun --nproc-per-node 2 -m course_lib.train --steps 100 --checkpoint my_run

    settings = train.Settings(ranks=2, steps=20)
    [record.loss for record in train.run(settings)]

``run`` starts the ranks, or uses those of torchrun; ``train`` is what each rank does, inside a process group
that is there.  From the bottom up: ``settings``; ``data``, the batch of each step and each rank's part of it;
``loss`` and ``precision``; ``averaging``, the ways to the mean gradient; ``mine``, the learner's own pieces;
``checkpoint``; ``steps``, all that follows when gradients are averaged; ``rank``, which puts them together.

The loss curve does not depend on how a step's batch is divided over N ranks and K micro-batches, but for
rounding.  Nothing here is imported before it is needed, so that ``course train --help`` is quick.
"""

from course_lib.train.settings import Settings

__all__ = ["Outcome", "Record", "Settings", "outcome", "run", "train"]

_PLACES = {
    "run": "starting", "outcome": "starting", "train": "rank", "Outcome": "records", "Record": "records",
}  # fmt: skip


def __getattr__(name: str):
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
