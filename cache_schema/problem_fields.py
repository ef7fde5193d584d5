"""From loosely named values to a `ConvProblem`: one table of accepted names, one place that refuses.

Names are read without regard to case and cover the command line flags, the problem files and the short names of
other convolution benchmarks. Nothing that changes the numbers is ever dropped in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem

#: Other spellings of the fields of `ConvProblem`, lower case.
ALIASES: dict[str, str] = {
    "cin": "c", "cout": "k", "hi": "h", "wi": "w", "kh": "y", "kw": "x", "g": "groups",
    "sh": "stride_h", "sw": "stride_w", "ph": "pad_h", "pw": "pad_w", "dh": "dilation_h", "dw": "dilation_w",
    "strides": "stride", "pads": "pad", "padding": "pad", "dilations": "dilation",
    "pads_before": "pad_lo", "pads_after": "pad_hi",
}  # fmt: skip
EXTENTS = ("n", "c", "h", "w", "k", "y", "x", "groups")
#: Names of a [height, width] pair, and what its halves are called.
PAIRS = {name: (f"{name}_h", f"{name}_w") for name in ("stride", "pad", "dilation")}
HALVES = tuple(half for halves in PAIRS.values() for half in halves)
#: Only a 3-D problem has these.
DEPTH_NAMES = ("d", "di", "z", "kd", "sd", "pd", "dd", "do")
#: NHWC activations are the only layout there is; what the weights and outputs of that layout are called.
LAYOUTS = {"layout": ("NHWC",), "in_layout": ("NHWC",), "fil_layout": ("NHWC", "KYXC"), "out_layout": ("NHWC", "NHWK")}
KNOWN = frozenset(("direction", "dtype", "op", "pad_lo", "pad_hi", *EXTENTS, *PAIRS, *HALVES, *DEPTH_NAMES, *LAYOUTS))


def is_known(name: str) -> bool:
    """True when `from_mapping` gives the name a meaning, be it only to refuse it."""
    return ALIASES.get(name.lower(), name.lower()) in KNOWN


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
        name = ALIASES.get(str(key).lower(), str(key).lower())
        if value is None:
            continue
        if name in given and given[name] != value:
            raise ProblemError(name, f"given twice, as {given[name]!r} and {value!r}")
        given[name] = value
    _refuse_unsupported(given)
    _join_padding(given)
    numbers: dict[str, int] = {}
    for name, value in given.items():
        if name in PAIRS:
            for half, number in zip(PAIRS[name], pair(name, value), strict=True):
                if numbers.setdefault(half, number) != number:
                    raise ProblemError(half, f"given twice, as {numbers[half]} and {number}")
        elif name in EXTENTS or name in HALVES:
            number = integer(name, value)
            if numbers.setdefault(name, number) != number:
                raise ProblemError(name, f"given twice, as {numbers[name]} and {number}")
        elif name not in ("direction", "dtype", *LAYOUTS, "op"):
            raise ProblemError(name, "unknown field")
    missing = [name for name in ("direction", "dtype") if name not in given]
    missing += [name for name in EXTENTS if name != "groups" and name not in numbers]
    if missing:
        raise ProblemError(missing[0], "missing" + (f"; so are {', '.join(missing[1:])}" if missing[1:] else ""))
    return ConvProblem(direction=str(given["direction"]), dtype=str(given["dtype"]), **numbers)


def integer(name: str, value: Any) -> int:
    """An integer, or decimal text of one; anything else (1.0, True, "0x10") is a `ProblemError`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
        return int(value)
    raise ProblemError(name, f"{value!r} is not an integer")


def pair(name: str, value: Any) -> tuple[int, int]:
    """(height, width) from one number for both, two numbers, or "2,1"."""
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if not isinstance(value, list | tuple):
        value = [value, value]
    if len(value) != 2:
        raise ProblemError(name, f"{list(value)!r} is not a [height, width] pair")
    return integer(name, value[0]), integer(name, value[1])


def _refuse_unsupported(given: Mapping[str, Any]) -> None:
    for name in DEPTH_NAMES:
        if name in given:
            raise ProblemError(name, "3-D convolution has no kernels here; only 2-D is supported")
    if "op" in given and given["op"] != "conv2d":
        raise ProblemError("op", f"{given['op']!r} has no kernels here; only conv2d is supported")
    for name, allowed in LAYOUTS.items():
        if name in given and str(given[name]).upper() not in allowed:
            raise ProblemError(name, f"{given[name]!r} is not supported; only {' or '.join(allowed)} is")


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
