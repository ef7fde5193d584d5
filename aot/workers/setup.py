"""What workers do before their first task beyond being up: functions by name, and where to find them.

A worker looks for modules in the project and in what that stands on, and nowhere else. Who needs more of it, such as a
family that is no part of the project, says so here, before the workers are started.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_functions: list[tuple[str, str]] = []


@contextmanager
def at_start(function: str, folder: Path) -> Iterator[None]:
    """Workers that are started inside the block call "module:function"; `folder` is where the module is found."""
    _functions.append((function, str(folder)))
    try:
        yield
    finally:
        _functions.pop()


def first_message(search_path: list[str]) -> dict[str, Any]:
    """What a worker is told first, for JSON."""
    folders = [folder for _, folder in _functions]
    return {"path": [*search_path, *folders], "call": [function for function, _ in _functions]}


def call(functions: list[str]) -> None:
    """Call these, in a worker."""
    for name in functions:
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function)()
