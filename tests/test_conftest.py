"""The rules for all tests hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

LACKING = """
import pytest

def test_needs():
    pytest.skip("{reason}no such compiler")
"""
CASES = """
import pytest

@pytest.mark.parametrize("case", [1, 2])
def test_cases(case):
    if case in {skipped}:
        pytest.skip("not here")
"""


@pytest.mark.parametrize(("skipped", "code"), [("(1, 2)", 1), ("(1,)", 0), ("()", 0)])
def test_a_test_that_skips_all_its_cases_fails(skipped: str, code: int, tmp_path: Path) -> None:
    """One case that ran is enough; none is a failure that names the test."""
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(CASES.replace("{skipped}", skipped))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert ("test_cases: every case was skipped" in done.stdout) == bool(code)


def test_what_the_machine_lacks_is_left_out_and_named(tmp_path: Path) -> None:
    """A test that no machine like this can run fails nothing, and the run says what is missing."""
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(LACKING.replace("{reason}", needs.LACKING))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "test_needs: not on this machine: no such compiler" in done.stdout
