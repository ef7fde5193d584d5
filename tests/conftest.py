"""Rules for all tests: one that skips every one of its cases has shown nothing, and fails."""

from __future__ import annotations

import pytest

_outcomes: dict[str, set[str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what came of each case of a test function."""
    if report.when == "call" or report.outcome != "passed":
        _outcomes.setdefault(report.nodeid.partition("[")[0], set()).add(report.outcome)


def all_skipped() -> list[str]:
    """The test functions whose cases were skipped, all of them."""
    return sorted(name for name, outcomes in _outcomes.items() if outcomes == {"skipped"})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run; the workers of a parallel run leave that to the parent, which sees all cases."""
    if all_skipped() and not hasattr(session.config, "workerinput"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which."""
    for name in all_skipped():
        terminalreporter.write_line(f"FAILED {name}: every case was skipped")
