"""Training steps event by event, computed and not run: of one rank, and of up to thousands.

``simulate_step``: what of the communication hides behind the backward pass, where all ranks are alike.
``simulate_cluster``: thousands of ranks, of which some are late, and a ring of which one link may be slow.
``LEFT_OUT``: what neither knows of.  It belongs beside every picture of what they say.
"""

from course_lib.simulator.cluster import (
    LEFT_OUT,
    MOST_RANKS,
    Cluster,
    ClusterStep,
    Link,
    channel_end,
    simulate_cluster,
)
from course_lib.simulator.step import Bucket, Event, Layer, Step, simulate_step

__all__ = [
    "LEFT_OUT",
    "MOST_RANKS",
    "Bucket",
    "Cluster",
    "ClusterStep",
    "Event",
    "Layer",
    "Link",
    "Step",
    "channel_end",
    "simulate_cluster",
    "simulate_step",
]
