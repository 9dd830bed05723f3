"""Buckets of gradients that are averaged while the backward pass still computes the others.

    model = overlap.BucketedDataParallel(module)
    for inputs, targets in loader:                     # this rank's part of the batch
        loss_function(model(inputs), targets).backward()
        model.finish()                                 # every gradient is the mean over all ranks
        optimizer.step()
        optimizer.zero_grad()

Its relatives are the same code with other settings: ``overlap=False`` averages all buckets after the backward
pass, and ``bucket_mb=math.inf`` all gradients at once.  ``data_parallel.average_gradients`` takes parameters
one by one.  ``comm_hook`` hands the course's ring, or the learner's, to torch's own DistributedDataParallel.
"""

from course_lib.overlap.bucketed import BucketedDataParallel
from course_lib.overlap.ddp import comm_hook

__all__ = ["BucketedDataParallel", "comm_hook"]
