"""Which edits of the sources count for which family, on a copy of the tree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aot.families import FAMILIES
from aot.family import KernelFamily
from aot.farm import sources
from aot.farm.sources import SOURCES, deciding_modules, family_digest, unchanged
from grids.families import known_family

ROOT = Path(__file__).parents[3]
NAMES = frozenset(family.name for family in FAMILIES)
BACKWARD_DATA = frozenset({"tilde", "stride1"})
Edit = Callable[[str], str]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, which tests leave as it is."""
    root = tmp_path_factory.mktemp("tree")
    for package in ("cache_schema", "grids", "aot"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def digests(root: Path) -> dict[str, str]:
    """Of all families, as a process that has read nothing yet computes them."""
    for kept in (sources.family_digest, sources._file, sources._imports, sources._text, sources._contents):
        kept.cache_clear()
    return {family.name: family_digest(starts(family), (root,)) for family in FAMILIES}


def starts(family: KernelFamily) -> tuple[str, str]:
    """The modules that define the two halves of a family."""
    return family.emit.__module__, known_family(family.name).record.__module__


def changed(root: Path, file: str, edit: Edit) -> frozenset[str]:
    """Families of which the digest is another one after an edit of a file."""
    before = digests(root)
    path = root / file
    source = path.read_text()
    assert edit(source) != source
    path.write_text(edit(source))
    try:
        after = digests(root)
    finally:
        path.write_text(source)
    return frozenset(name for name in before if before[name] != after[name])


def comment(source: str) -> str:
    """Say more, and other things."""
    return f"# First of all.\n{source}\n# That is all.\n".replace('"""', '"""Really: ', 1)


def code(source: str) -> str:
    """Do something more."""
    return f"{source}\nSURPLUS = 1\n"


@pytest.mark.parametrize("file", ["aot/kernels/dgrad.py", "grids/geometry.py", "aot/farm/units.py"])
def test_words_count_for_nobody(tree: Path, file: str) -> None:
    """An edited comment or docstring changes no digest."""
    assert changed(tree, file, comment) == frozenset()


@pytest.mark.parametrize(
    ("file", "families"),
    [
        ("aot/kernels/dgrad.py", BACKWARD_DATA),
        ("aot/kernels/forward.py", {"implicit_gemm"}),
        ("aot/kernels/wgrad_reduce.py", {"reduce"}),
        ("aot/kernels/wgrad_stream_k.py", {"stream_k"}),
        ("aot/kernels/wgrad_streams.py", NAMES - BACKWARD_DATA - {"implicit_gemm", "reduce", "fix_up"}),
        ("aot/kernels/gemm.py", NAMES - {"reduce", "fix_up"}),
        ("aot/ir/builder.py", NAMES),
        ("aot/ir/__init__.py", NAMES),
        ("grids/geometry.py", NAMES),
        ("grids/targets.yaml", NAMES),
        ("aot/farm/units.py", NAMES),
        ("aot/toolchain/link.py", NAMES),
        ("aot/runtime/plan_dgrad.py", set()),
        ("aot/verification/edges_forward.py", set()),
        ("aot/families/tilde.py", set()),
        ("grids/families/tilde.py", {"tilde"}),
        ("grids/families/fix_up.py", {"fix_up", "stream_k"}),
        ("grids/families/__init__.py", set()),
        ("grids/gemm/records.py", NAMES),
        ("aot/cli/main.py", set()),
        ("aot/emulator/run.py", set()),
    ],
)
def test_code_counts_for_who_is_made_of_it(tree: Path, file: str, families: set[str]) -> None:
    """Families that import a file, directly or not, are other ones when it changes, and no others."""
    edit = code if file.endswith(".py") else (lambda text: f"{text}\n# Data has no words that do not count.\n")
    assert changed(tree, file, edit) == frozenset(families)


def test_imports_inside_of_functions_are_followed(tree: Path) -> None:
    """A module that is imported late decides as much."""
    builder, late = tree / "aot/kernels/wgrad_reduce.py", tree / "aot/kernels/late.py"
    late.write_text("X = 1\n")
    source = builder.read_text()
    builder.write_text(f"{source}\n\ndef late() -> int:\n    from aot.kernels.late import X\n\n    return X\n")
    assert changed(tree, "aot/kernels/late.py", lambda _: "X = 2\n") == {"reduce"}
    builder.write_text(source)
    assert changed(tree, "aot/kernels/late.py", lambda _: "X = 2\n") == frozenset()


def test_the_registry_does_not_bring_in_the_others() -> None:
    """The unit asks it for the family; no other family's builder is among the modules."""
    for family in FAMILIES:
        names = deciding_modules((*starts(family), "aot.farm.units"), (ROOT,))
        assert not any(name.startswith(("aot.families", "aot.verification", "aot.runtime")) for name in names)
        assert known_family(family.name).record.__module__ in deciding_modules(starts(family), (ROOT,))
    forward = deciding_modules(("aot.kernels.forward",), (ROOT,))
    assert not any("wgrad" in name or "dgrad" in name for name in forward)


def test_families_are_unchanged_one_by_one() -> None:
    """A digest that is equal counts while all else is equal; a file with one digest for all says nothing."""
    ours = {"toolchain": "a", SOURCES: {"tilde": "1", "reduce": "2"}}
    assert unchanged(ours, {"toolchain": "a", SOURCES: {"tilde": "1", "reduce": "3", "x": "4"}}) == {"tilde"}
    assert unchanged(ours, {"toolchain": "b", SOURCES: ours[SOURCES]}) == frozenset()
    assert unchanged(ours, {"toolchain": "a", SOURCES: "1"}) == frozenset()
    assert unchanged(ours, {}) == frozenset()
