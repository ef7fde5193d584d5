"""Imports go down the layers only, and no layer pulls in what it does not declare."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Package -> what its modules may import besides the standard library and themselves.
ALLOWED = {
    "cache_schema": {"numpy", "zstandard", "yaml"},
    "grids": {"numpy", "yaml", "cache_schema"},
    "aot": {"numpy", "yaml", "cache_schema", "grids", "click", "llvmlite", "tqdm", "msgpack", "zstandard"},
}

#: Rooms of aot -> rooms they must not look into: what is made does not know who asks for it.
FORBIDDEN_ROOMS = {
    "ir": {"kernels", "toolchain", "farm", "emulator", "runtime", "inspection", "verification", "cli"},
    "kernels": {"toolchain", "farm", "emulator", "runtime", "inspection", "verification", "cli"},
    "toolchain": {"ir", "kernels", "farm", "emulator", "runtime", "inspection", "verification", "cli"},
    "emulator": {"ir", "kernels", "farm", "hazards", "runtime", "inspection", "verification", "cli"},
    "farm": {"emulator", "hazards", "verification", "cli"},
    "workers": {
        "ir",
        "kernels",
        "toolchain",
        "farm",
        "emulator",
        "hazards",
        "inspection",
        "runtime",
        "verification",
        "cli",
    },
    "inspection": {"farm", "emulator", "hazards", "verification", "cli"},
    "hazards": {"ir", "kernels", "farm", "runtime", "verification", "cli"},
    "runtime": {"farm", "hazards", "verification", "cli"},
    "verification": {"farm", "cli"},
}


def imported_modules(path: Path) -> set[str]:
    """Dotted names that a file imports anywhere, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_go_down(package: str) -> None:
    """A module imports its own package, a lower layer, or a declared dependency, and nothing else."""
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        tops = {name.split(".")[0] for name in imported_modules(path)}
        foreign = tops - ALLOWED[package] - {package} - set(sys.stdlib_module_names)
        assert not foreign, f"{path.relative_to(ROOT)} imports {', '.join(sorted(foreign))}"


@pytest.mark.parametrize("room", FORBIDDEN_ROOMS)
def test_rooms_do_not_look_up(room: str) -> None:
    """Inside aot, a room never imports one that stands on it."""
    for path in sorted((ROOT / "aot" / room).rglob("*.py")):
        rooms = {name.split(".")[1] for name in imported_modules(path) if name.startswith("aot.")}
        bad = rooms & FORBIDDEN_ROOMS[room]
        assert not bad, f"{path.relative_to(ROOT)} imports aot.{', aot.'.join(sorted(bad))}"


def test_every_package_has_an_importable_init() -> None:
    """Every folder with modules is a package, so that an installed copy holds all of them."""
    for package in ALLOWED:
        for path in (ROOT / package).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} lacks __init__.py"
