"""Hypothesis strategies for arbitrary identities, well beyond what any grid contains."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cache_schema.identity import INT_RANGE, Identity, schema_of_record
from tests.cache_schema.records import RECORDS

#: The same examples on every run, and no complaint when the machine is busy.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

#: Names from the grids, and any text at all, so that no character is special by accident.
WORDS = st.one_of(
    st.sampled_from(["fwd", "wgrad", "alpha", "mem", "gfx950", "bf16", "fp16", "cshuffle", "late", ""]),
    st.text(max_size=8),
)
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "str": WORDS,
    "int": st.one_of(st.sampled_from([0, 1, 2, 16, 64, 128, 256]), st.integers(*INT_RANGE)),
    "bool": st.booleans(),
}


def of_record(record: type[Identity]) -> st.SearchStrategy[Identity]:
    """Identities of one family with any value in any field."""
    return st.builds(record, **{field.name: _KINDS[field.kind] for field in schema_of_record(record).fields})


def identities() -> st.SearchStrategy[Identity]:
    """Identities of any family with any value in any field."""
    return st.sampled_from(RECORDS).flatmap(of_record)
