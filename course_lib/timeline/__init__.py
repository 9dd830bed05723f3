"""What each rank did when: recorded inside ranks, simulated, or read from a trace; drawn, summed up, saved.

    def step():
        record = timeline.Recorder()
        with record("compute", "forward"):
            ...
        return record.spans

    spans = [span for spans in ranks.run(step, 4) for span in spans]
    display(timeline.figure(spans, "Measured in this run"))
    timeline.save_trace(spans, "step.json")                # for https://ui.perfetto.dev

    timeline.hidden_seconds(spans), timeline.exposed_seconds(spans)
    timeline.comparison({"one bucket": spans, "buckets": others}, "Measured in this run")

A whole training step, layer by layer and bucket by bucket, whatever averages the gradients:

    record = timeline.Recorder()
    model = BucketedDataParallel(module, all_reduce=record.all_reduce(ring))
    with record.step(module):                              # its layers, forward and backward
        loss_function(model(inputs), targets).backward()
        with record("idle", "wait"):
            model.finish()
        with record("optimizer state", "optimizer"):
            optimizer.step()

matplotlib is imported only when a figure is drawn, and torch only inside ranks.
"""

from course_lib.timeline.clocks import clock_offset
from course_lib.timeline.drawing import comparison, figure
from course_lib.timeline.hiding import exposed_seconds, hidden_seconds, split_arrivals
from course_lib.timeline.recorder import Recorder
from course_lib.timeline.spans import LANES, Span
from course_lib.timeline.trace import read_trace, save_trace

__all__ = [
    "LANES",
    "Recorder",
    "Span",
    "clock_offset",
    "comparison",
    "exposed_seconds",
    "figure",
    "hidden_seconds",
    "read_trace",
    "save_trace",
    "split_arrivals",
]
