"""The readable name of an identity, without loss: `decode(encode(identity)) == identity`.

    label   = direction ":" algorithm ":" arch ":" dtypes { ":" tag }
    dtypes  = dtype                                  all three equal
            | dtype_a "-" dtype_b "-" dtype_d
    tag     = name "=" value { "x" value }           a group of fields, such as tile=128x128x64
            | name                                   a flag that is set
            | name "=0"                              a flag that the baseline sets and this identity does not
            | "knob." key "=" value                  one tuning argument of a direct kernel

A tag appears if, and only if, one of its fields differs from the baseline of the family; tags come in the order of
`TAGS`. Text is percent-encoded beyond letters, digits and "_.+-". There is one label per identity, so equal labels
mean equal identities: a label in any other form is refused and the right form is named.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from cache_schema.baseline import Value, baseline
from cache_schema.errors import RequestError
from cache_schema.identity import FIELD_KIND, Identity

#: Tag name -> its fields, which all have one kind. Every field behind the key fields is in exactly one tag.
TAGS: dict[str, tuple[str, ...]] = {
    "tile": ("tile_m", "tile_n", "tile_k"),
    "warps": ("warp_m", "warp_n"),
    "atom": ("warp_tile_m", "warp_tile_n", "warp_tile_k"),
    "wave": ("wave_size",),
    "pipe": ("pipeline",),
    "epi": ("epilogue",),
    "vec": ("vector_size_a", "vector_size_b", "vector_size_c"),
    "async": ("async_dma",),
    "unroll": ("unroll_k",),
    "chunk": ("async_chunk_a", "async_chunk_b"),
    "swizzle": ("chiplet_swizzle",),
    "lds": ("lds_layout",),
    "ldspad": ("lds_k_pad",),
    "kouter": ("lds_k_outer",),
    "wpeu": ("waves_per_eu",),
    "acc": ("acc_epilogue",),
    "sk": ("split_k",),
    "2stage": ("two_stage",),
    "replicas": ("ws_replicas",),
    "streamk": ("stream_k",),
    "gm": ("group_merge",),
    "loadwaves": ("num_load_waves",),
    "noalias": ("cshuffle_no_alias",),
    "pfa": ("prefetch_addr",),
    "ukd": ("uniform_k_decode",),
    "rtc": ("runtime_channels",),
    "3d": ("is_3d",),
    "pointwise": ("is_pointwise",),
    "filter": ("filter_h", "filter_w"),
    "filterd": ("filter_d",),
    "stride": ("stride_h", "stride_w"),
    "dilation": ("dilation_h", "dilation_w"),
    "pad": ("pad_h", "pad_w"),
    "cpg": ("cpg",),
    "kpg": ("kpg",),
    "grouped": ("grouped",),
    "blockh": ("block_h",),
    "subgemms": ("max_sub_gemms",),
    "knobs": ("knobs",),
}
KNOB = "knob."
_TEXT = re.compile(r"(?:[A-Za-z0-9_.+-]|%[0-9A-F]{2})*")
_INT = re.compile(r"0|-?[1-9][0-9]{0,9}")
_KNOB_NAME = re.compile(r"[A-Za-z0-9_]+")
_INT_RANGE = (-(2**31), 2**31 - 1)


class LabelError(RequestError):
    """A text that is not the label of any identity; `part` is the piece that is wrong."""

    def __init__(self, part: str, message: str) -> None:
        self.part = part
        super().__init__(f"label part {part!r}: {message}")


def encode(identity: Identity) -> str:
    """The label."""
    direction, algorithm = identity.direction, identity.algorithm
    usual = _baseline(direction, algorithm)
    dtypes = [_text(d).replace("-", "%2D") for d in (identity.dtype_a, identity.dtype_b, identity.dtype_d)]
    parts = [_text(direction), _text(algorithm), _text(identity.arch)]
    parts.append(dtypes[0] if dtypes[0] == dtypes[1] == dtypes[2] else "-".join(dtypes))
    for tag, names in TAGS.items():
        values = [getattr(identity, name) for name in names]
        if values == [usual[name] for name in names]:
            continue
        kind = FIELD_KIND[names[0]]
        if kind == "bool":
            parts.append(tag if values[0] else f"{tag}=0")
        elif kind == "int":
            parts.append(f"{tag}={'x'.join(map(str, values))}")
        else:
            knobs = _split_knobs(values[0]) if tag == "knobs" else None
            parts += knobs or [f"{tag}={_text(values[0])}"]
    return ":".join(parts)


def decode(label: str) -> Identity:
    """The identity of a label; `LabelError` names the part that is wrong."""
    parts = label.split(":")
    if len(parts) < 4:
        raise LabelError(label, "a label starts with direction:algorithm:arch:dtype")
    direction, algorithm, arch = map(_untext, parts[:3])
    dtypes = [_untext(dtype) for dtype in parts[3].split("-")]
    if len(dtypes) not in (1, 3):
        raise LabelError(parts[3], "one dtype, or three joined by '-'")
    values = dict(_baseline(direction, algorithm))
    knobs: dict[str, int | bool | None] = {}
    for part in parts[4:]:
        if part.startswith(KNOB):
            name, _, text = part.removeprefix(KNOB).partition("=")
            knobs[name] = _knob_value(part, text)
        else:
            values.update(_read_tag(part))
    if knobs:
        values["knobs"] = _join_knobs(knobs)
    dtype_a, dtype_b, dtype_d = dtypes * 3 if len(dtypes) == 1 else dtypes
    identity = Identity(arch, direction, algorithm, dtype_a, dtype_b, dtype_d, **values)  # type: ignore[arg-type]
    right = encode(identity)
    if right != label:
        pieces = right.split(":")
        wrong = next((part for at, part in enumerate(parts) if pieces[at : at + 1] != [part]), parts[-1])
        raise LabelError(wrong, f"repeated, out of order or not in its shortest form; the label is {right}")
    return identity


@lru_cache(maxsize=256)
def _baseline(direction: str, algorithm: str) -> dict[str, Value]:
    return baseline(direction, algorithm)


def _read_tag(part: str) -> dict[str, Value]:
    tag, equals, text = part.partition("=")
    names = TAGS.get(tag)
    if names is None:
        raise LabelError(part, f"unknown tag {tag!r}")
    kind = FIELD_KIND[names[0]]
    if kind == "bool":
        if equals and text != "0":
            raise LabelError(part, f"a flag is written {tag!r} or '{tag}=0'")
        return {names[0]: not equals}
    if not equals:
        raise LabelError(part, f"tag {tag!r} needs a value")
    if kind == "str":
        return {names[0]: _untext(text)}
    numbers = text.split("x")
    if len(numbers) != len(names):
        raise LabelError(part, f"tag {tag!r} has {len(names)} numbers joined by 'x'")
    return dict(zip(names, (_integer(part, number) for number in numbers), strict=True))


def _integer(part: str, text: str) -> int:
    if not _INT.fullmatch(text) or not _INT_RANGE[0] <= int(text) <= _INT_RANGE[1]:
        raise LabelError(part, f"{text!r} is not a 32-bit decimal integer")
    return int(text)


@lru_cache(maxsize=4096)
def _text(value: str) -> str:
    # quote() also leaves "~" alone.
    return quote(value, safe="+").replace("~", "%7E")


def _untext(text: str) -> str:
    if not _TEXT.fullmatch(text):
        raise LabelError(text, "text is letters, digits, '_.+-' and %XX")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise LabelError(text, "not the percent-encoding of UTF-8 text") from error


def _split_knobs(knobs: str) -> list[str] | None:
    """One tag per tuning argument, if the text is the compact sorted JSON of a flat object of integers and flags."""
    try:
        data = json.loads(knobs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not data:
        return None
    if not all(isinstance(value, int | None) and _KNOB_NAME.fullmatch(name) for name, value in data.items()):
        return None
    if any(isinstance(value, int) and not _INT_RANGE[0] <= value <= _INT_RANGE[1] for value in data.values()):
        return None
    if _join_knobs(data) != knobs:
        return None
    return [f"{KNOB}{name}={json.dumps(data[name])}" for name in sorted(data)]


def _join_knobs(data: dict[str, int | bool | None]) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _knob_value(part: str, text: str) -> int | bool | None:
    words = {"true": True, "false": False, "null": None}
    return words[text] if text in words else _integer(part, text)
