"""MIOpenDriver command lines as problems.

    [anything] conv|convfp16|convbfp16|convint8 { -option value | --option value | -option=value | --option=value }

One or two dashes before a short or a long name are the same. Options that only steer the driver (timing,
verification, seeds, dumps) and unknown ones are skipped; options that would make another problem are refused.
"""

from __future__ import annotations

import re

from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem
from cache_schema.problem_fields import from_mapping, integer

KEYWORD_DTYPE = {"conv": "fp32", "convfp16": "fp16", "convbfp16": "bf16", "convint8": "int8"}
#: Bits of -F. Zero means all of them, and so does leaving it out.
DIRECTION_BITS = ((1, "fwd"), (2, "dgrad"), (4, "wgrad"))

#: Option -> our field. Short names are case-sensitive.
OPTIONS: dict[str, str] = {
    "n": "n", "batchsize": "n", "c": "c", "in_channels": "c", "H": "h", "in_h": "h", "W": "w", "in_w": "w",
    "k": "k", "out_channels": "k", "y": "y", "fil_h": "y", "x": "x", "fil_w": "x",
    "p": "pad_h", "pad_h": "pad_h", "q": "pad_w", "pad_w": "pad_w",
    "u": "stride_h", "conv_stride_h": "stride_h", "v": "stride_w", "conv_stride_w": "stride_w",
    "l": "dilation_h", "dilation_h": "dilation_h", "j": "dilation_w", "dilation_w": "dilation_w",
    "g": "groups", "group_count": "groups", "F": "forw", "forw": "forw",
    "I": "in_layout", "in_layout": "in_layout", "f": "fil_layout", "fil_layout": "fil_layout",
    "O": "out_layout", "out_layout": "out_layout",
    "_": "spatial_dim", "spatial_dim": "spatial_dim", "m": "mode", "mode": "mode", "z": "pad_mode",
    "pad_mode": "pad_mode", "!": "in_d", "in_d": "in_d", "@": "fil_d", "fil_d": "fil_d",
}  # fmt: skip
#: Options that would change the problem, and the only values under which they do not.
HARMLESS = {"mode": ("conv",), "pad_mode": ("default",), "spatial_dim": ("1", "2"), "in_d": ("1",), "fil_d": ("1",)}


def from_miopen_line(line: str) -> list[ConvProblem]:
    """The problems of one line, one per direction selected by -F, in the order fwd, dgrad, wgrad.

    Raises `ProblemError` naming the field.
    """
    dtype, values = _tokens(line)
    for name, allowed in HARMLESS.items():
        if name in values and values[name].lower() not in allowed:
            raise ProblemError(name, f"{values[name]!r} is not supported; only {' or '.join(allowed)} is")
    if dtype not in ("fp16", "bf16"):
        raise ProblemError("dtype", f"the line asks for {dtype}, for which there are no kernels; only fp16 and bf16")
    selected = integer("forw", values.pop("forw", "0"))
    if not 0 <= selected <= 7:
        raise ProblemError("forw", f"{selected} is not a sum of 1 (fwd), 2 (dgrad) and 4 (wgrad), or 0 for all")
    if values.get("spatial_dim") == "1" or values.get("in_layout", "").upper() == "NWC":
        _raise_to_2d(values)
    fields = {name: value for name, value in values.items() if name not in HARMLESS}
    return [
        from_mapping({**fields, "direction": direction, "dtype": dtype})
        for bit, direction in DIRECTION_BITS
        if selected & bit or not selected
    ]


def _tokens(line: str) -> tuple[str, dict[str, str]]:
    """(dtype, our field name -> text); a repeated option counts as last given, as in the driver."""
    words = line.split()
    start = next((at for at, word in enumerate(words) if word in KEYWORD_DTYPE), None)
    if start is None:
        raise ProblemError("dtype", f"no keyword of {', '.join(KEYWORD_DTYPE)} in the line {line.strip()[:80]!r}")
    values: dict[str, str] = {}
    at = start + 1
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-"):
            continue
        option, equals, value = word.lstrip("-").partition("=")
        name = OPTIONS.get(option)
        if not equals:
            following = words[at] if at < len(words) else ""
            if re.fullmatch(r"[^-].*|-[0-9]+", following):
                value = following
                at += 1
            elif name is not None:
                raise ProblemError(name, f"option {word} has no value")
        if name is not None:
            values[name] = value
    return KEYWORD_DTYPE[words[start]], values


def _raise_to_2d(values: dict[str, str]) -> None:
    """A 1-D problem is a 2-D one with a single row."""
    for name in ("in_layout", "fil_layout", "out_layout"):
        if values.get(name, "").upper() in ("NWC", "KXC", "NWK"):
            del values[name]
    values.update(h="1", y="1", pad_h="0", stride_h="1", dilation_h="1")
