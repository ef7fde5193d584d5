"""The vocabulary of reasons: code to one sentence, for the command line, the ledger and the documentation.

A reason is declared where its rule is; here they are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cache_schema.errors import UnknownValueError
from grids.families import families
from grids.serving import ASKED


def explanations() -> Mapping[str, str]:
    """One sentence per reason code, rules and serving together."""
    every = families().values()
    sentences = {rule.code: rule.sentence for family in every for rule in family.all_rules}
    serving = {rule.code: rule.sentence for family in every for rule in family.serving}
    return MappingProxyType({**sentences, **ASKED, **serving})


def explain(code: str) -> str:
    """The sentence of one reason code; `UnknownValueError` for a code that does not exist."""
    known = explanations()
    try:
        return known[code]
    except KeyError:
        raise UnknownValueError("reason code", code, known) from None


def deciding_fields(code: str) -> tuple[str, ...]:
    """The fields of an identity on which a serving rule decides; none for a rule of the grid."""
    if code in ASKED:
        return ("family",)
    rules = (rule for family in families().values() for rule in family.serving)
    return next((rule.fields for rule in rules if rule.code == code), ())
