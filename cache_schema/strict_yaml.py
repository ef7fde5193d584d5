"""YAML from elsewhere, as its core schema has it and no more: what a hand writes, and nothing that unfolds.

`n`, `y`, `no` and `on` are text, `010` is ten. Refused: repeated keys, aliases (a few hundred bytes of them stand for
gigabytes), tags, deep nesting, half surrogate pairs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from cache_schema.strict_json import MOST_LEVELS, require_unicode

#: Of a file that is read whole: a thousand times the largest list of problems here.
MOST_BYTES = 1 << 24


def read_text(path: Path) -> str:
    """The text of a file; OSError or ValueError says why not. Devices and endless files are none."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"longer than {MOST_BYTES} bytes")
    return data.decode()


def load(text: str) -> Any:
    """The value of a YAML text; ValueError says in one line what is wrong with it."""
    try:
        value = yaml.load(text, CoreLoader)  # noqa: S506 (a SafeLoader)
        require_unicode(value)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    return value


class CoreLoader(yaml.SafeLoader):
    """The loader of `load`."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own protocol)
    levels = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """As the base class, but neither aliases nor more than `MOST_LEVELS`."""
        fault = "aliases are not supported; write the value again" if self.check_event(yaml.AliasEvent) else ""
        if self.levels == MOST_LEVELS:
            fault = f"nested deeper than {MOST_LEVELS} levels"
        if fault:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, fault, event.start_mark)
        self.levels += 1
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As the base class, but refuses repeated keys."""
        mapping = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key is repeated in one mapping", node.start_mark)
        return mapping


def _core_int(loader: CoreLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("null", r"null|Null|NULL|~|", [*"nN~", ""]),
    ("int", r"[-+]?[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}", [*"-+0123456789"]),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|nan)", [*"-+.0123456789"]),
):
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)
CoreLoader.add_constructor("tag:yaml.org,2002:int", _core_int)
