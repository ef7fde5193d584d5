"""The core of the compiler's half names no direction and no family: these words stand in families and their parts."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from aot.families import FAMILIES
from cache_schema.problem import DIRECTIONS
from tests.aot.farm.test_source_text import tokens

AOT = Path(__file__).parents[3] / "aot"
#: Rooms of the core. Below it, where instructions and code objects are, other things have names like these.
ROOMS = ("family.py", "cli/", "farm/", "inspection/", "runtime/", "verification/", "workers/")
#: Families, what they are put together from, and the arithmetic of a convolution, which is told a direction.
PARTS = (
    "families/",
    "kernels/",
    "runtime/plan_forward.py",
    "runtime/plan_dgrad.py",
    "runtime/plan_wgrad.py",
    "runtime/forecast_wgrad.py",
    "runtime/reference.py",
    "runtime/inputs.py",
    "verification/edges_forward.py",
    "verification/edges_dgrad.py",
    "verification/edges_wgrad.py",
    "verification/launch_paths.py",
    "verification/run_second_step.py",
    "verification/stream_k_parts.py",
)
#: Names of families that are plain words too: as a name in the code they may be about something else.
PLAIN = {"atomic", "merged", "reduce"}
DIRECTION = re.compile(rf"(?<![a-z])({'|'.join((*DIRECTIONS, 'forward'))})(?![a-z])")
FAMILY = {family.name for family in FAMILIES}
IN_NAMES = re.compile(rf"(?<![a-z])({'|'.join(sorted(FAMILY - PLAIN))})(?![a-z])")


def words(source: str) -> Iterator[str]:
    """Words in code and strings, without comments and docstrings, that a core module must not have."""
    for kind, text in tokens(source):
        if kind not in (tokenize.NAME, tokenize.STRING):
            continue
        yield from (match[0] for pattern in (DIRECTION, IN_NAMES) for match in pattern.finditer(text))
        if kind == tokenize.STRING and text.strip("\"'") in PLAIN:
            yield text


def core() -> list[Path]:
    """Modules of the core."""
    names = {path.relative_to(AOT).as_posix(): path for path in sorted(AOT.rglob("*.py"))}
    return [path for name, path in names.items() if name.startswith(ROOMS) and not name.startswith(PARTS)]


def test_the_core_names_no_direction_and_no_family() -> None:
    """Whoever adds a family finds nothing to change here."""
    found = {path.relative_to(AOT).as_posix(): list(words(path.read_text())) for path in core()}
    assert len(found) > 60
    assert {path: told for path, told in found.items() if told} == {}


def test_the_search_finds_them() -> None:
    """In names, in their parts, in strings; not in comments, docstrings and longer words."""
    for source in ('x = "fwd"\n', "wgrad_x = 1\n", "f(two_stage=1)\n", 'x == "reduce"\n', 'x = "a dgrad b"\n'):
        assert list(words(source)), source
    for source in ('"""Of fwd."""\n', "x = 1  # wgrad\n", "reduced = merged\n", "from a import atomic_file\n"):
        assert not list(words(source)), source
    for part in PARTS:
        files = [path for path in AOT.rglob("*.py") if path.relative_to(AOT).as_posix().startswith(part)]
        assert any(list(words(path.read_text())) for path in files), part
