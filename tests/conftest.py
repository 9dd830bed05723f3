"""What holds for all tests."""


def pytest_terminal_summary(terminalreporter):
    """Show what tests have measured, but do not judge: machines differ.  They leave it in user_properties."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    measured = [text for report in reports if report.when == "call" for name, text in report.user_properties
                if name == "measured"]  # fmt: skip
    if measured:
        terminalreporter.section("measured")
    for text in measured:
        terminalreporter.write_line(text)
