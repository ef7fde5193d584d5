"""A problem as short text: `direction=fwd dtype=bf16 n=8 c=64 h=56 w=56 k=64 y=3 x=3 pad=1`."""

from __future__ import annotations

from cache_schema.problem import ConvProblem


def problem_text(problem: ConvProblem) -> str:
    """Fields in order, neutral strides, pads, dilations and groups left out; `--problem` reads it back."""
    words = [f"direction={problem.direction}", f"dtype={problem.dtype}"]
    words += [f"{name}={getattr(problem, name)}" for name in ("n", "c", "h", "w", "k", "y", "x")]
    for name, neutral in (("stride", 1), ("pad", 0), ("dilation", 1)):
        rows, cols = getattr(problem, f"{name}_h"), getattr(problem, f"{name}_w")
        if (rows, cols) != (neutral, neutral):
            words.append(f"{name}={rows}" if rows == cols else f"{name}={rows},{cols}")
    return " ".join([*words, *([f"groups={problem.groups}"] if problem.groups != 1 else [])])
