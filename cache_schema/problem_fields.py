"""What may be said of a problem: one table for flags, records of JSON and YAML, and driver lines.

Names in flags and records are read without regard to case; options of driver lines as they are. Nothing that changes
the numbers is ever dropped in silence: what is not in the table is refused by its name, and so is a field that makes
another problem than the ones that kernels here are for.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cache_schema.errors import ProblemError
from cache_schema.problem import DIRECTIONS, ConvProblem

WORD, NUMBER, PAIR, FIXED = "word", "number", "pair", "fixed"


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that may be said.

    `kind` is a WORD, a NUMBER, a PAIR of height and width, or FIXED: only the values in `allowed`, in lower case, make
    a problem that has kernels here, and `why` says why. `names` are other spellings in flags and records, `options`
    those of driver lines. A field with a `help` is a flag of the command line.
    """

    name: str
    kind: str
    names: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    help: str = ""
    allowed: tuple[str, ...] = ()
    why: str = ""


def _only(name: str, *allowed: str, names: tuple[str, ...] = (), options: tuple[str, ...] = (), why: str = "") -> Field:
    return Field(name, FIXED, names, options, allowed=allowed, why=why)


_NO_DEPTH = "3-D convolution has no kernels here; only 2-D is supported"
FIELDS: tuple[Field, ...] = (
    Field("n", NUMBER, (), ("n", "batchsize"), "Images."),
    Field("c", NUMBER, ("cin",), ("c", "in_channels"), "Input channels over all groups."),
    Field("h", NUMBER, ("hi",), ("H", "in_h"), "Image rows."),
    Field("w", NUMBER, ("wi",), ("W", "in_w"), "Image columns."),
    Field("k", NUMBER, ("cout",), ("k", "out_channels"), "Output channels (filters) over all groups."),
    Field("y", NUMBER, ("kh",), ("y", "fil_h"), "Filter rows."),
    Field("x", NUMBER, ("kw",), ("x", "fil_w"), "Filter columns."),
    Field("stride", PAIR, ("strides",), help="Stride, S or SH,SW.  [default: 1]"),
    Field("pad", PAIR, ("pads", "padding"), help="Padding on each side, P or PH,PW.  [default: 0]"),
    Field("dilation", PAIR, ("dilations",), help="Dilation, D or DH,DW.  [default: 1]"),
    Field("groups", NUMBER, ("g",), ("g", "group_count"), "Groups.  [default: 1]"),
    Field("direction", WORD, help=f"One of {', '.join(DIRECTIONS)}.  [default: what the cache has]"),
    Field("dtype", WORD, help="fp16 or bf16.  [default: that of the cache]"),
    Field("stride_h", NUMBER, ("sh",), ("u", "conv_stride_h")),
    Field("stride_w", NUMBER, ("sw",), ("v", "conv_stride_w")),
    Field("pad_h", NUMBER, ("ph",), ("p", "pad_h")),
    Field("pad_w", NUMBER, ("pw",), ("q", "pad_w")),
    Field("dilation_h", NUMBER, ("dh",), ("l", "dilation_h")),
    Field("dilation_w", NUMBER, ("dw",), ("j", "dilation_w")),
    Field("pad_lo", PAIR, ("pads_before",)),
    Field("pad_hi", PAIR, ("pads_after",)),
    _only("op", "conv2d"),
    _only("mode", "conv", names=("conv_mode",), options=("m", "mode")),
    _only("transposed", "0", "false", names=("transpose",)),
    _only("spatial_dim", "2", options=("_", "spatial_dim"), why=_NO_DEPTH),
    # NHWC activations are the only layout there is; the others are what its weights and outputs are called.
    _only("layout", "nhwc", names=("data_layout", "data_format", "tensor_layout", "memory_format")),
    _only("in_layout", "nhwc", names=("input_layout",), options=("I", "in_layout")),
    _only("fil_layout", "nhwc", "kyxc", names=("filter_layout", "weight_layout"), options=("f", "fil_layout")),
    _only("out_layout", "nhwc", "nhwk", names=("output_layout",), options=("O", "out_layout")),
    # Padding is given in numbers and is of zeros.
    _only("auto_pad", "notset"),
    _only("pad_mode", "default", "zeros", names=("padding_mode", "pad_type"), options=("z", "pad_mode")),
    _only("pad_val", "0", names=("pad_value", "padding_value"), options=("r", "pad_val")),
    _only("output_padding", "0", names=("output_pad",), options=("trans_output_pad_d", "%", "trans_output_pad_h", "Y",
        "trans_output_pad_w", "X")),
    _only("bias", "0", "false", options=("b", "bias"), why="kernels add nothing to their sums"),
    _only("in_d", "1", options=("!", "in_d"), why=_NO_DEPTH),
    _only("fil_d", "1", options=("@", "fil_d"), why=_NO_DEPTH),
    _only("conv_stride_d", "1", options=("#", "conv_stride_d"), why=_NO_DEPTH),
    _only("pad_d", "0", options=("$", "pad_d"), why=_NO_DEPTH),
    _only("dilation_d", "1", options=("^", "dilation_d"), why=_NO_DEPTH),
    *(_only(name, why=_NO_DEPTH) for name in ("d", "di", "z", "kd", "sd", "pd", "dd", "do")),
    _only("tensor_vect", "0", options=("Z", "tensor_vect"), why="tensors are not packed in vectors"),
    _only("vector_length", "0", "1", options=("L", "vector_length"), why="tensors are not packed in vectors"),
    *(_only(name, "-1", options=(option, name), why="operands are not cast")
        for name, option in (("in_cast_type", "U"), ("out_cast_type", "T"), ("wei_cast_type", "R"))),
)  # fmt: skip
BY_NAME: dict[str, Field] = {name: field for field in FIELDS for name in (field.name, *field.names)}
BY_OPTION: dict[str, Field] = {option: field for field in FIELDS for option in field.options}
REQUIRED = ("direction", "dtype", "n", "c", "h", "w", "k", "y", "x")
#: What the halves of a pair are called.
_HALVES = {name: (f"{name}_h", f"{name}_w") for name in ("stride", "pad", "dilation")}


def from_flags(*, direction: str = "fwd", **values: Any) -> ConvProblem:
    """A problem from named values; None means not given, integers may be text. Stride, pad and dilation may be given
    as one number or a pair (`stride=2`, `stride=(2, 1)`, `stride="2,1"`) or by axis (`stride_h`, `stride_w`).

    Raises `ProblemError` naming the field: missing, unknown, malformed, asymmetric padding, 3-D, other layouts.
    """
    return from_mapping({"direction": direction, **values})


def from_mapping(values: Mapping[str, Any]) -> ConvProblem:
    """As `from_flags`, but the direction has to be there."""
    given: dict[str, Any] = {}
    for key, value in values.items():
        if value is None:
            continue
        field = BY_NAME.get(str(key).lower())
        if field is None:
            raise ProblemError(str(key)[:40], "unknown field")
        add(given, field, value)
    for field in FIELDS:
        if field.kind == FIXED and field.name in given:
            require_fixed(field, given.pop(field.name))
    _join_padding(given)
    words = {name: str(given.pop(name))[:40] for name in ("direction", "dtype") if name in given}
    numbers: dict[str, int] = {}
    for name, value in given.items():
        parts = (
            zip(_HALVES[name], pair(name, value), strict=True) if name in _HALVES else [(name, integer(name, value))]
        )
        for half, number in parts:
            if numbers.setdefault(half, number) != number:
                raise ProblemError(half, f"given twice, as {numbers[half]} and {number}")
    missing = [name for name in REQUIRED if name not in words and name not in numbers]
    if missing:
        raise ProblemError(missing[0], "missing" + (f"; so are {', '.join(missing[1:])}" if missing[1:] else ""))
    return ConvProblem(**words, **numbers)  # type: ignore[arg-type]


def add(given: dict[str, Any], field: Field, value: Any) -> None:
    """Note a value; ProblemError where the field has another one already."""
    if field.name in given and given[field.name] != value:
        first, second = reprlib.repr(given[field.name]), reprlib.repr(value)
        raise ProblemError(field.name, f"given twice, as {first} and {second}")
    given[field.name] = value


def require_fixed(field: Field, value: Any) -> None:
    """ProblemError for a value that makes a problem without kernels here."""
    if str(value).lower() not in field.allowed:
        allowed = f"only {' or '.join(field.allowed)} is" if field.allowed else ""
        raise ProblemError(field.name, f"{reprlib.repr(value)} is not supported; {field.why or allowed}")


def integer(name: str, value: Any) -> int:
    """An integer, or decimal text of one; anything else (1.0, True, "0x10") is a `ProblemError`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
        return int(value)
    raise ProblemError(name, f"{reprlib.repr(value)} is not an integer")


def pair(name: str, value: Any) -> tuple[int, int]:
    """(height, width) from one number for both, two numbers, or "2,1"."""
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if not isinstance(value, list | tuple):
        value = [value, value]
    if len(value) != 2:
        raise ProblemError(name, f"{reprlib.repr(list(value))} is not a [height, width] pair")
    return integer(name, value[0]), integer(name, value[1])


def _join_padding(given: dict[str, Any]) -> None:
    """Fold pad_lo and pad_hi into pad when they agree."""
    if "pad_lo" not in given and "pad_hi" not in given:
        return
    for name in ("pad_lo", "pad_hi"):
        if name not in given:
            raise ProblemError(name, "missing; low and high padding go together")
    low, high = pair("pad_lo", given.pop("pad_lo")), pair("pad_hi", given.pop("pad_hi"))
    if low != high:
        raise ProblemError("pad", f"low {list(low)} and high {list(high)} differ; asymmetric padding has no kernels")
    if "pad" in given and pair("pad", given["pad"]) != low:
        raise ProblemError("pad", f"given twice, as {given['pad']!r} and {list(low)}")
    given["pad"] = low
