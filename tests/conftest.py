"""Rules for all tests: one that skips every one of its cases has shown nothing, and fails.

Unless the machine lacks what each of them needs, as `tests.needs` says; those are named at the end.
"""

from __future__ import annotations

import signal

import pytest

#: As `tests.needs` has it; repeated, so that this file stands alone.
_LACKING = "Skipped: not on this machine: "

_outcomes: dict[str, set[str]] = {}

# A shell without job control starts what runs in its background with Ctrl-C ignored, and so would start every command
# that the tests then interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what came of each case of a test function."""
    if report.when == "call" or report.outcome != "passed":
        outcome: str = report.outcome
        if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2].startswith(_LACKING):
            outcome = report.longrepr[2].removeprefix("Skipped: ")
        _outcomes.setdefault(report.nodeid.partition("[")[0], set()).add(outcome)


def all_skipped() -> list[str]:
    """The test functions whose cases were skipped, all of them, though the machine has what they need."""
    return sorted(name for name, outcomes in _outcomes.items() if outcomes == {"skipped"})


def left_out() -> list[str]:
    """The test functions that this machine cannot run, and what it lacks."""
    kept = {"passed", "failed", "skipped"}
    return sorted(f"{name}: {', '.join(sorted(why))}" for name, why in _outcomes.items() if not why & kept)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run; the workers of a parallel run leave that to the parent, which sees all cases."""
    if all_skipped() and not hasattr(session.config, "workerinput"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which."""
    for name in all_skipped():
        terminalreporter.write_line(f"FAILED {name}: every case was skipped")
    for line in left_out():
        terminalreporter.write_line(f"left out {line}")
