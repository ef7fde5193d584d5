"""What the scanner of sources keeps and finds, against the standard library's tokenizer and parser."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

from aot.farm.source_text import deciding_text, imported_names

ROOT = Path(__file__).parents[3]
FILES = sorted(path for package in ("cache_schema", "grids", "aot") for path in (ROOT / package).rglob("*.py"))
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def tokens(source: str) -> list[tuple[int, str]]:
    """Tokens that decide: no comments, no layout, no statement that is a string alone."""
    read = list(tokenize.generate_tokens(io.StringIO(source).readline))
    read = [token for token in read if token.type not in (tokenize.COMMENT, tokenize.NL)]
    kept, before = [], tokenize.NEWLINE
    for token, after in zip(read, [*read[1:], read[-1]], strict=True):
        begins = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        alone = token.type == tokenize.STRING and begins and after.type == tokenize.NEWLINE
        if token.type not in _LAYOUT and not alone:
            kept.append((token.type, token.string))
        before = token.type
    return kept


def imports(source: str) -> set[str]:
    """Everything that an import statement names, members included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_all_files_of_the_project() -> None:
    """No token is lost or added, no import is missed, and no comment or docstring is left."""
    assert len(FILES) > 200
    for path in FILES:
        source = path.read_text()
        text = deciding_text(source)
        assert tokens(text + "\n") == tokens(source), path
        assert imports(source) <= imported_names(text), path
        assert deciding_text(text) == text, path


@pytest.mark.parametrize(
    "other",
    [
        'x = 1\n\n\ndef f():\n    return "a # b"\n',
        '"""Said."""\nx = 1  # why\ndef f():\n    r"""Of f."""\n    # here\n    return "a # b"\n',
        "# Above.\nx = 1\n\n'''said'''\n\ndef f():\n\n    return \"a # b\"  # ''' \"\"\"\n",
    ],
)
def test_what_is_said_does_not_count(other: str) -> None:
    """Comments, docstrings of every kind, blank lines; quotes in comments and hashes in strings confuse nothing."""
    assert deciding_text(other) == deciding_text('x = 1\ndef f():\n    return "a # b"\n')


@pytest.mark.parametrize(
    "other",
    [
        'x = 2\ny = ("a"\n"b")\n',
        'x = 1\ny = ("a"\n"c")\n',
        'x = 1\ny = ("a",\n"b")\n',
        'if x:\n    x = 1\ny = ("a"\n"b")\n',
        'x = 1\ny = """a\n\nb"""\n',
        'x = 1\ny = """a\nb"""\n',
        'x = 1\ny = \\\n"a"\n',
        "x = 1\ny = \\\n'b'\n",
    ],
)
def test_what_is_done_counts(other: str) -> None:
    """Strings in brackets and behind a backslash are no docstrings; blank lines in a string are part of it."""
    seen = {deciding_text('x = 1\ny = ("a"\n"b")\n')}
    assert deciding_text(other) not in seen


def test_blank_lines_in_strings_differ() -> None:
    """Only blank lines of code are dropped."""
    assert deciding_text('y = """a\n\nb"""\n') != deciding_text('y = """a\nb"""\n')
