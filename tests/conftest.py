"""What holds for all tests."""

import nbval.kernel

# Where files take longest, first: a long one that starts last leaves the other cores idle.
LONGEST_FIRST = ("browser", "exercises", "notebooks", "solutions", "faults", "hosts", "links", "ranks",
                 "all_reduce", "train")  # fmt: skip


def once_more(start):
    """A kernel's ports are chosen before it listens on them, and other tests' processes may be faster."""

    def start_new_kernel(*arguments, **options):
        try:
            return start(*arguments, **options)
        except RuntimeError:
            return start(*arguments, **options)

    return start_new_kernel


nbval.kernel.start_new_kernel = once_more(nbval.kernel.start_new_kernel)


def pytest_collection_modifyitems(items):
    """Put the files of the folders above first; within a file the order stays."""
    order = {folder: place for place, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.parent.name, len(order)))


def pytest_terminal_summary(terminalreporter):
    """Show what tests have measured, but do not judge: machines differ.  They leave it in user_properties."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    measured = [text for report in reports if report.when == "call" for name, text in report.user_properties
                if name == "measured"]  # fmt: skip
    if measured:
        terminalreporter.section("measured")
    for text in measured:
        terminalreporter.write_line(text)
