"""Python sources as text that decides: without comments, docstrings and blank lines; and what they import.

A scanner of its own, since the standard library's tokenizer takes longer than everything else that a run without work
does. It knows strings, comments and brackets, and nothing of the rest of the language.
"""

from __future__ import annotations

import re

# Every alternative begins with one of a few characters, which is what makes the search fast.
_ITEM = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<string>\"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}
                 | '{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
                 | "[^"\\\n]*(?:\\.[^"\\\n]*)*"
                 | '[^'\\\n]*(?:\\.[^'\\\n]*)*')
      | (?P<open>[(\[{])
      | (?P<close>[)\]}])""",
    re.VERBOSE | re.DOTALL,
)
#: Of strings that are no more than data.
_PREFIXES = ("", "r", "u", "b", "rb", "br")
_IMPORT = re.compile(r"^[ \t]*(?:from[ ]([\w.]+)[ ]import[ ](\([^)]*\)|[^\n]+)|import[ ]([^\n]+))", re.MULTILINE)
_FILE = re.compile(r"[\"'](\w[\w\-]*\.\w+)[\"']")
_BLANK = re.compile(r"[ \t]*\n(?:[ \t]*\n)*")
_AFTER = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")


def deciding_text(source: str) -> str:
    """The source without what changes nothing that it does; its lines keep their indentation."""
    code, kept, place, depth = "", [], 0, 0
    for item in _ITEM.finditer(source):
        kind, start, end = item.lastgroup, item.start(), item.end()
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif kind == "comment" or (depth == 0 and _is_statement(source, start, end)):
            code += source[place:start] if kind == "comment" else source[place : source.rfind("\n", 0, start) + 1]
            place = end
        else:
            kept += [_without_blank_lines(code + source[place:start]), source[start:end]]
            code, place = "", end
    return "".join((*kept, _without_blank_lines(code + source[place:]))).strip()


def _without_blank_lines(code: str) -> str:
    return _BLANK.sub("\n", code) if "\n" in code else code


def _is_statement(source: str, start: int, end: int) -> bool:
    """Whether a string outside of brackets is a statement of its own, which is a docstring or does nothing."""
    line = source.rfind("\n", 0, start) + 1
    if source[line:start].strip().lower() not in _PREFIXES or source.endswith("\\\n", 0, line):
        return False
    return _AFTER.match(source, end) is not None


def imported_names(text: str) -> set[str]:
    """Dotted names that may be modules which a deciding text imports, wherever in it."""
    names: set[str] = set()
    for module, members, plain in _IMPORT.findall(text):
        listed = [part.split()[0] for part in (members or plain).strip("()").split(",") if part.strip()]
        names |= {module, *(f"{module}.{name}" for name in listed)} if module else set(listed)
    return names


def file_names(text: str) -> set[str]:
    """Words in quotes that may be names of files."""
    return set(_FILE.findall(text))
