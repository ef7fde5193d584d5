"""Hypothesis strategies for arbitrary identities, well beyond what any grid contains."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cache_schema.identity import FIELD_KIND, FIELDS, Identity

#: The same examples on every run, and no complaint when the machine is busy.
STEADY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

INT32 = st.integers(-(2**31), 2**31 - 1)
#: Names from the grids, and any text at all, so that no character is special by accident.
WORDS = st.one_of(
    st.sampled_from(
        ["fwd", "wgrad", "dgrad", "implicit_gemm", "direct_grouped", "gfx950", "bf16", "fp16", "direct", ""]
    ),
    st.text(max_size=8),
)
KNOB_VALUES = st.one_of(st.none(), st.booleans(), INT32, st.integers(), st.floats(allow_nan=False), st.text(max_size=4))
KNOBS = st.one_of(
    st.just(""),
    st.text(max_size=12),
    st.dictionaries(st.text(st.sampled_from("abk_1."), max_size=4), KNOB_VALUES, max_size=4).map(
        lambda data: json.dumps(data, sort_keys=True, separators=(",", ":"))
    ),
    st.dictionaries(st.text(st.sampled_from("abk_1"), min_size=1, max_size=4), INT32 | st.booleans(), max_size=4).map(
        lambda data: json.dumps(data, sort_keys=True)
    ),
)
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "str": WORDS,
    "int": st.one_of(st.sampled_from([0, 1, 2, 16, 64, 128, 256]), INT32),
    "bool": st.booleans(),
}


def identities() -> st.SearchStrategy[Identity]:
    """Identities with any value in any field."""
    fields = {name: KNOBS if name == "knobs" else _KINDS[FIELD_KIND[name]] for name in FIELDS}
    return st.builds(Identity, **fields)
