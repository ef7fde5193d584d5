"""Labels lose nothing, collide never, and bad ones are refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache_schema.identity import Identity, schema_of, schema_of_record
from cache_schema.label import LabelError, decode, encode
from tests.cache_schema.records import RECORDS, Alpha
from tests.cache_schema.strategies import STEADY, identities, of_record
from tests.cache_schema.test_digest import ALPHA, BARE, BETA

GOLDEN = {
    ALPHA: "fwd:alpha:gfx950:bf16:tile=128x64:pipe=compv4:deep=0:cpg=3",
    replace(ALPHA, dtype_d="fp-32", pipeline="a b", unroll_k=True, deep=True, cpg=0): (
        "fwd:alpha:gfx950:bf16-bf16-fp%2D32:tile=128x64:pipe=a%20b:unroll"
    ),
    BETA: "wgrad:beta:gfx942:fp16-fp16-fp32:sk=-7",
    BARE: "wgrad:bare:gfx942:fp16",
}


@settings(STEADY, max_examples=400)
@given(identities())
def test_round_trip(identity: Identity) -> None:
    """decode(encode(i)) == i for any values in any field, in plain printable ASCII."""
    label = encode(identity)
    assert decode(label) == identity
    assert label.isascii()
    assert label.isprintable()
    assert " " not in label


@settings(STEADY, max_examples=300)
@given(of_record(Alpha), of_record(Alpha), st.sets(st.sampled_from(schema_of_record(Alpha).names)))
def test_labels_differ_when_identities_do(left: Identity, right: Identity, mixed: set[str]) -> None:
    """Two identities share a label only if they are equal, also when they differ in few fields."""
    values: dict[str, Any] = {name: getattr(right, name) for name in mixed}
    near = replace(left, **values)
    assert (encode(left) == encode(near)) == (left == near)


@settings(STEADY, max_examples=300)
@given(identities(), st.data())
def test_fuzzed_labels(identity: Identity, data: st.DataObject) -> None:
    """A label with a random edit is either another identity's own label or a LabelError, never anything else."""
    label = encode(identity)
    at = data.draw(st.integers(0, len(label)))
    cut = data.draw(st.integers(0, 3))
    noise = data.draw(st.text(st.sampled_from(":=x-%.0129azknob\u0661\n"), max_size=4))
    fuzzed = label[:at] + noise + label[at + cut :]
    try:
        decoded = decode(fuzzed)
    except LabelError:
        return
    assert encode(decoded) == fuzzed


@settings(STEADY, max_examples=200)
@given(st.text())
def test_any_text(text: str) -> None:
    """Arbitrary text is a LabelError."""
    with pytest.raises(LabelError):
        decode(text)


def test_golden() -> None:
    """Labels are an interface: these stay as they are, in both directions."""
    for identity, label in GOLDEN.items():
        assert encode(identity) == label
        assert decode(label) == identity


@pytest.mark.parametrize("record", RECORDS)
def test_tags_cover_every_field_once(record: type[Identity]) -> None:
    """A field that had no tag would be lost; each tag has neighbouring fields of one kind only."""
    schema = schema_of_record(record)
    tagged = [field for fields in schema.tags.values() for field in fields]
    assert tagged == list(schema.fields[4:])
    assert all(len({field.kind for field in fields}) == 1 for fields in schema.tags.values())
    assert all(len(fields) == 1 or fields[0].kind == "int" for fields in schema.tags.values())


@pytest.mark.parametrize(
    ("tail", "part"),
    [
        ("tile=1", "tile=1"),
        ("tile=1x2x3", "tile=1x2x3"),
        ("tile=1xq", "tile=1xq"),
        ("tile=01x2", "tile=01x2"),
        ("tile=99999999999x1", "tile=99999999999x1"),
        ("cpg=4294967296", "cpg=4294967296"),
        ("sk=3", "sk=3"),
        ("shape=3", "shape=3"),
        ("unroll=1", "unroll=1"),
        ("deep", "deep"),
        ("cpg", "cpg"),
        ("cpg=0", "cpg=0"),
        ("unroll:tile=1x2", "unroll"),
        ("unroll:unroll", "unroll"),
        ("pipe=%4", "%4"),
        ("pipe=%FF", "%FF"),
        ("pipe=%6D", "pipe=%6D"),
        ("", ""),
    ],
)
def test_bad_part_is_named(tail: str, part: str) -> None:
    """The error points at the piece that is wrong; a tag of another family is wrong too."""
    with pytest.raises(LabelError) as caught:
        decode(f"fwd:alpha:gfx950:bf16:{tail}")
    assert caught.value.part == part


def test_prefix_is_required() -> None:
    """Too few leading parts, two dtypes, a family that is none or of another direction."""
    for label in ("", "fwd", "fwd:alpha:gfx950", "fwd:alpha:gfx950:bf16-bf16"):
        with pytest.raises(LabelError):
            decode(label)
    for label, part in (("fwd:omega:gfx950:bf16", "omega"), ("wgrad:alpha:gfx950:bf16", "wgrad")):
        with pytest.raises(LabelError) as caught:
            decode(label)
        assert caught.value.part == part


def test_labels_name_what_differs_from_the_default() -> None:
    """And nothing else, for every field of every family."""
    for identity in (BETA, BARE, Alpha("a", "b", "b", "b")):
        for field in schema_of(identity).fields:
            if field.axis and getattr(identity, field.name) == field.default:
                assert not any(part.partition("=")[0] == field.axis.tag for part in encode(identity).split(":")[4:])
