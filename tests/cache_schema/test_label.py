"""Labels lose nothing, collide never, and bad ones are refused by name."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache_schema.baseline import baseline
from cache_schema.identity import FIELD_KIND, FIELDS, Identity
from cache_schema.label import TAGS, LabelError, decode, encode
from tests.cache_schema.strategies import STEADY, identities
from tests.cache_schema.test_digest import DIRECT, FORWARD

GOLDEN = {
    FORWARD: "fwd:implicit_gemm:gfx950:bf16:tile=128x128x64:warps=2x2:atom=32x32x16:pipe=compv4:epi=cshuffle:vec=8x8x8",
    replace(FORWARD, dtype_d="fp32", grouped=False, pipeline="mem", async_dma=True, prefetch_addr=True): (
        "fwd:implicit_gemm:gfx950:bf16-bf16-fp32:tile=128x128x64:warps=2x2:atom=32x32x16:epi=cshuffle:vec=8x8x8"
        ":async:pfa:grouped=0"
    ),
    Identity("gfx942", "dgrad", "implicit_gemm", "fp16", "fp16", "fp16", grouped=True, max_sub_gemms=64): (
        "dgrad:implicit_gemm:gfx942:fp16"
    ),
    DIRECT: (
        "direct_fwd:direct_depthwise:gfx942:fp16:filter=3x3:stride=1x1:pad=1x1:cpg=1:kpg=1"
        ":knob.block_w=4:knob.block_waves=2"
    ),
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
@given(identities(), identities(), st.sets(st.sampled_from(FIELDS)))
def test_labels_differ_when_identities_do(left: Identity, right: Identity, mixed: set[str]) -> None:
    """Two identities share a label only if they are equal, also when they differ in few fields."""
    near = replace(left, **{name: getattr(right, name) for name in mixed})
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
    # Arguments whose JSON is not the sorted compact one are kept letter by letter.
    knobs = replace(DIRECT, knobs='{"block_waves":2,"block_w":4}')
    assert encode(knobs).endswith(":knobs=%7B%22block_waves%22%3A2%2C%22block_w%22%3A4%7D")


def test_tags_cover_every_field_once() -> None:
    """A field that had no tag would be lost; each tag has fields of one kind only."""
    tagged = [name for names in TAGS.values() for name in names]
    assert sorted(tagged) == sorted(FIELDS[6:])
    assert all(len({FIELD_KIND[name] for name in names}) == 1 for names in TAGS.values())


def test_baselines_are_pinned() -> None:
    """A changed baseline would change what existing labels mean."""
    defaults = {field.name: field.default for field in fields(Identity)[6:]}
    direct = {**defaults, "pipeline": "direct", "epilogue": "direct"}
    assert baseline("fwd", "implicit_gemm") == {**defaults, "grouped": True}
    assert baseline("wgrad", "implicit_gemm") == {**defaults, "grouped": True}
    assert baseline("dgrad", "implicit_gemm") == {**defaults, "grouped": True, "max_sub_gemms": 64}
    assert baseline("direct_fwd", "direct_grouped") == direct
    assert baseline("no", "such") == defaults


@pytest.mark.parametrize(
    ("tail", "part"),
    [
        ("tile=1x2", "tile=1x2"),
        ("tile=1x2xq", "tile=1x2xq"),
        ("tile=01x2x3", "tile=01x2x3"),
        ("tile=99999999999x1x1", "tile=99999999999x1x1"),
        ("cpg=4294967296", "cpg=4294967296"),
        ("shape=3", "shape=3"),
        ("unroll=1", "unroll=1"),
        ("grouped", "grouped"),
        ("cpg", "cpg"),
        ("cpg=0", "cpg=0"),
        ("unroll:async", "unroll"),
        ("unroll:unroll", "unroll"),
        ("pipe=%4", "%4"),
        ("pipe=%FF", "%FF"),
        ("pipe=%6D", "pipe=%6D"),
        ("knob.a=1.5", "knob.a=1.5"),
        ("knob.=1", "knob.=1"),
        ("", ""),
    ],
)
def test_bad_part_is_named(tail: str, part: str) -> None:
    """The error points at the piece that is wrong."""
    with pytest.raises(LabelError) as caught:
        decode(f"fwd:implicit_gemm:gfx950:bf16:{tail}")
    assert caught.value.part == part


def test_prefix_is_required() -> None:
    """Too few leading parts, or two dtypes."""
    for label in ("", "fwd", "fwd:implicit_gemm:gfx950", "fwd:implicit_gemm:gfx950:bf16-bf16"):
        with pytest.raises(LabelError):
            decode(label)
