"""What a test needs of the machine, and what becomes of it where that is not to be had."""

from __future__ import annotations

from typing import NoReturn

import pytest

#: Begins the reason of a skip that no case of the test could have avoided here.
LACKING = "not on this machine: "


def lacking(what: str) -> NoReturn:
    """Leave out the test that calls this, since the machine has no such thing."""
    pytest.skip(LACKING + what)


def needed(present: bool, what: str) -> pytest.MarkDecorator:
    """The same as a mark, for what is known before the test starts."""
    return pytest.mark.skipif(not present, reason=LACKING + what)
