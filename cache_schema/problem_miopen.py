"""MIOpenDriver command lines as problems.

    [anything] conv|convfp16|convbfp16|convint8 { -option value | --option value | -option=value | --option=value }

One or two dashes before a short or a long name are the same. Options that only steer the driver are skipped; those that
would make another problem, and unknown ones, are refused by name.
"""

from __future__ import annotations

import re

from cache_schema.errors import ProblemError
from cache_schema.problem import ConvProblem
from cache_schema.problem_fields import BY_OPTION, WORD, Field, add, from_mapping, integer

KEYWORD_DTYPE = {"conv": "fp32", "convfp16": "fp16", "convbfp16": "bf16", "convint8": "int8"}
#: Bits of -F. Zero means all of them, and so does leaving it out.
DIRECTION_BITS = ((1, "fwd"), (2, "dgrad"), (4, "wgrad"))
_DIRECTIONS = Field("forw", WORD, options=("F", "forw"))
_OPTIONS = BY_OPTION | dict.fromkeys(_DIRECTIONS.options, _DIRECTIONS)
#: What decides how often, how, on which data and how loudly the driver runs a problem, and not which.
STEERING = frozenset((
    "i", "iter", "V", "verify", "C", "verification_cache", "t", "time", "w", "wall", "s", "search", "P", "printconv",
    "o", "dump_output", "d", "in_data", "e", "weights", "D", "dout_data", "S", "solution", "G", "gpualloc",
))  # fmt: skip


def from_miopen_line(line: str) -> list[ConvProblem]:
    """The problems of one line, one per direction selected by -F, in the order fwd, dgrad, wgrad.

    Raises `ProblemError` naming the field.
    """
    dtype, values = _tokens(line)
    if dtype not in ("fp16", "bf16"):
        raise ProblemError("dtype", f"the line asks for {dtype}, for which there are no kernels; only fp16 and bf16")
    selected = integer("forw", values.pop("forw", "0"))
    if not 0 <= selected <= 7:
        raise ProblemError("forw", f"{selected} is not a sum of 1 (fwd), 2 (dgrad) and 4 (wgrad), or 0 for all")
    if values.get("spatial_dim") == "1" or values.get("in_layout", "").upper() == "NWC":
        _raise_to_2d(values)
    return [
        from_mapping({**values, "direction": direction, "dtype": dtype})
        for bit, direction in DIRECTION_BITS
        if selected & bit or not selected
    ]


def _tokens(line: str) -> tuple[str, dict[str, str]]:
    """(dtype, name of our field -> text)."""
    words = line.split()
    start = next((at for at, word in enumerate(words) if word in KEYWORD_DTYPE), None)
    if start is None:
        raise ProblemError("dtype", f"no keyword of {', '.join(KEYWORD_DTYPE)} in the line {line.strip()[:80]!r}")
    values: dict[str, str] = {}
    at = start + 1
    while at < len(words):
        word = words[at]
        at += 1
        if word in KEYWORD_DTYPE:
            raise ProblemError("dtype", f"a second {word}: a file may have one driver line on each of its lines")
        option, equals, value = word.lstrip("-").partition("=")
        field = _OPTIONS.get(option)
        if not word.startswith("-") or (field is None and option not in STEERING):
            raise ProblemError(word[:40], "unknown option of a driver line; it may ask for another problem")
        if not equals:
            following = words[at] if at < len(words) else ""
            mode = field is not None and field.name == "mode"  # of which `conv` is a value
            if re.fullmatch(r"[^-].*|-[0-9]+", following) and (mode or following not in KEYWORD_DTYPE):
                value = following
                at += 1
            elif field is not None:
                raise ProblemError(field.name, f"option {word[:40]} has no value")
        if field is not None:
            add(values, field, value)
    return KEYWORD_DTYPE[words[start]], values


def _raise_to_2d(values: dict[str, str]) -> None:
    """A 1-D problem is a 2-D one with a single row."""
    for name in ("in_layout", "fil_layout", "out_layout"):
        if values.get(name, "").upper() in ("NWC", "KXC", "NWK"):
            del values[name]
    values.pop("spatial_dim", None)
    for name, neutral in (("h", "1"), ("y", "1"), ("pad_h", "0"), ("stride_h", "1"), ("dilation_h", "1")):
        if values.setdefault(name, neutral) != neutral:
            raise ProblemError(name, f"{values[name][:40]!r}; a 1-D problem has one row")
