"""Data parallelism: every rank trains its own copy of a module, on its own part of each batch.

    data_parallel.broadcast_parameters(module)        # once: all ranks begin with rank 0's weights
    for inputs, targets in loader:                    # this rank's part of the batch
        loss_function(module(inputs), targets).backward()
        data_parallel.average_gradients(module)
        optimizer.step()
        optimizer.zero_grad()
    data_parallel.assert_in_step(module)              # whenever in doubt

``train_step`` is what stands in the loop, for a batch in several micro-batches:

    data_parallel.train_step(module, micro_batches, loss_function, optimizer)

Every rank must call these, as often as the others.  They use torch.distributed's default group, and run the
same from a notebook, under torchrun, and on one rank alone.
"""

from course_lib.data_parallel.gradients import average_gradients
from course_lib.data_parallel.replicas import assert_in_step, broadcast_parameters
from course_lib.data_parallel.step import train_step

__all__ = ["assert_in_step", "average_gradients", "broadcast_parameters", "train_step"]
