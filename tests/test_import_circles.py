"""No module needs itself: imports form no circle, wherever in a file they stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("aot", "cache_schema", "grids")


def module_name(path: Path, root: Path) -> str:
    """Dotted name of a file."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(module, names taken from it) of every import statement: of the module, inside functions, and for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module, tuple(alias.name for alias in node.names)


def import_graph(root: Path, packages: tuple[str, ...]) -> dict[str, set[str]]:
    """Module -> modules of these packages that it imports.

    `from package import module` leads to the module. That Python also runs the package's `__init__` is left out: a
    module needs the names of its package only where it says so.
    """
    trees = {
        module_name(path, root): ast.parse(path.read_text())
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }
    graph: dict[str, set[str]] = {}
    for module, tree in trees.items():
        wanted = {
            inner if (inner := f"{name}.{taken}") in trees else name
            for name, names in imports_of(tree)
            for taken in names or ("",)
        }
        graph[module] = wanted & trees.keys()
    return graph


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules of which each imports the next, the last of them the first again; empty if there is none."""
    done: set[str] = set()

    def follow(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for wanted in sorted(graph[module]):
            if circle := follow(wanted, [*path, module]):
                return circle
        done.add(module)
        return []

    return next((circle for module in sorted(graph) if (circle := follow(module, []))), [])


def test_imports_form_no_circle() -> None:
    """What imports each other is one module in several files: each can be read only together with the others."""
    graph = import_graph(ROOT, PACKAGES)
    assert {name.split(".")[0] for name in graph} == set(PACKAGES)
    circle = find_circle(graph)
    assert not circle, " -> ".join(circle)


@pytest.mark.parametrize(
    "statement",
    [
        "import p.a",
        "from p import a",
        "from p.a import thing",
        "def late():\n    from p.a import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import Thing",
    ],
)
def test_a_circle_is_named(statement: str, tmp_path: Path) -> None:
    """Each way to write an import counts, and the circle is told without the modules that only lead into it."""
    (tmp_path / "p").mkdir()
    for name, text in (
        ("__init__", "from p.above import x"),
        ("above", "import p.a"),
        ("a", "from p import b"),
        ("b", "import p.c"),
        ("c", statement),
        ("apart", "import ast"),
    ):
        (tmp_path / "p" / f"{name}.py").write_text(text)
    assert find_circle(import_graph(tmp_path, ("p",))) == ["p.a", "p.b", "p.c", "p.a"]
    (tmp_path / "p" / "c.py").write_text("import p.apart")
    assert find_circle(import_graph(tmp_path, ("p",))) == []
