"""What documents say of the tree is so: every path that they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
_QUOTED = re.compile(r"`((?:aot|cache_schema|grids|scripts|tests|docs)(?:/[A-Za-z0-9_.-]+)+/?)`")
_LINKED = re.compile(r"\]\(([^):#]+)\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_exist(document: Path) -> None:
    """Paths in backticks are from the root of the tree, links from the document."""
    text = document.read_text()
    missing = [name for name in _QUOTED.findall(text) if "NAME" not in name and not (ROOT / name).exists()]
    missing += [name for name in _LINKED.findall(text) if not (document.parent / name).exists()]
    assert missing == []


def test_documents_name_paths() -> None:
    """The patterns find something in every document that should have it."""
    for document in DOCUMENTS:
        found = _QUOTED.findall(document.read_text()) + _LINKED.findall(document.read_text())
        assert found, document
