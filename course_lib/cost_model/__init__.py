"""What an all-reduce costs: seconds by the latency-bandwidth model, and the bytes on each link.

A message of n bytes takes ``latency + n / bandwidth`` seconds: a fixed time to arrive at all, and its bytes
at the link's rate.  An algorithm is so many messages that must wait for each other, and so many times the
tensor that must pass through the slowest link.  For p ranks, lg being the logarithm to base 2, rounded up
for the tree and down elsewhere:

======================  ===============  ==================  ===========================================
algorithm               messages         tensors             where p is no power of two
======================  ===============  ==================  ===========================================
``star``                2 (p-1)          2 (p-1)             the same
``tree``                2 lg p           2 lg p              the same
``recursive-doubling``  lg p             lg p                2 messages and 2 tensors more
``halving-doubling``    2 lg p           2 (p-1)/p           2 messages and 2 tensors more
``unchunked-ring``      p-1              p-1                 the same
``ring``                2 (p-1)          2 (p-1)/p           the same
======================  ===============  ==================  ===========================================

The tree is a binomial one, up and down again, not pipelined.  The 2 more are MPICH's: ranks too many for a
power of two give their tensor to a neighbor first, and get the sum from it at the end (R. Thakur and others,
2005; mpich, src/mpi/coll).  The ring: P. Patarasuk and X. Yuan, 2009.  Left out: the time to add, and
everything that processes do before their first byte is on its way.
"""

from course_lib.cost_model.fitting import Fit, fit
from course_lib.cost_model.link_traffic import Traffic, traffic
from course_lib.cost_model.seconds import (
    ALGORITHMS,
    COLLECTIVES,
    Terms,
    all_reduce_seconds,
    bus_bandwidth,
    crossover,
    limit_seconds,
    terms,
)

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "Fit",
    "Terms",
    "Traffic",
    "all_reduce_seconds",
    "bus_bandwidth",
    "crossover",
    "fit",
    "limit_seconds",
    "terms",
    "traffic",
]
