"""The vocabulary of reasons: code to one sentence, for the command line, the ledger and the documentation.

A reason is declared where its rule is; here they are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from cache_schema.errors import UnknownValueError
from grids.rules import RULES
from grids.serving import SERVING_RULES


@cache
def explanations() -> Mapping[str, str]:
    """One sentence per reason code, rules and serving together."""
    sentences = {rule.code: rule.sentence for rules in RULES.values() for rule in rules}
    return MappingProxyType(sentences | {rule.code: rule.sentence for rule in SERVING_RULES})


def explain(code: str) -> str:
    """The sentence of one reason code; `UnknownValueError` for a code that does not exist."""
    try:
        return explanations()[code]
    except KeyError:
        raise UnknownValueError("reason code", code, explanations()) from None


def deciding_fields(code: str) -> tuple[str, ...]:
    """The fields of an identity on which a serving rule decides; none for a rule of the grid."""
    return next((rule.fields for rule in SERVING_RULES if rule.code == code), ())
