"""The vocabulary of reasons: code to one sentence, for the command line, the ledger and the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import yaml

from cache_schema.errors import UnknownValueError


@cache
def explanations() -> Mapping[str, str]:
    """One sentence per reason code, rules and serving together."""
    return MappingProxyType(yaml.safe_load(files("grids").joinpath("reasons.yaml").read_text(encoding="utf-8")))


def explain(code: str) -> str:
    """The sentence of one reason code; `UnknownValueError` for a code that does not exist."""
    try:
        return explanations()[code]
    except KeyError:
        raise UnknownValueError("reason code", code, explanations()) from None
