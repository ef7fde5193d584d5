"""Wait states behind matrix instructions, as rows of data by unit and passes; see `rules` for what a row means.

Results are interlocked nowhere but as the accumulator of the next matrix instruction: exactly the same registers may be
taken up at once (behind two passes after two wait states), others may not.
"""

from __future__ import annotations

from typing import Final

from aot.hazards.rules import SAME, SHIFTED, Rule

#: Of gfx942 and of gfx950.
States = tuple[int, int]

_A, _C = "ISA; checkMAIHazards90A", "ISA; checkMAIVALUHazards"

#: (role, passes + 3 of a use as A or B, by the vector ALU and by memory; passes + 1 of the accumulator elsewhere; and
#: how long the accumulator that it read must stay). gfx950 needs one more of all but the last, and of the shortest only
#: where one XDL instruction accumulates for another.
_XDL: Final = (
    ("xdl2", (5, 5), (3, 4), (3, 3), (1, 1)),
    ("xdl4", (7, 8), (5, 6), (5, 6), (3, 3)),
    ("xdl8", (11, 12), (9, 10), (9, 10), (7, 7)),
    ("xdl16", (19, 20), (17, 18), (17, 18), (15, 15)),
)
#: (role, use as A or B, by the vector ALU and by memory; accumulator of other f32 and f64 instructions elsewhere)
_SGEMM: Final = (("sgemm2", (4, 4), (2, 2)), ("sgemm8", (10, 10), (8, 8)), ("sgemm16", (18, 18), (16, 16)))


def _xdl(
    role: str, use: tuple[int, int], xdl: tuple[int, int], other: tuple[int, int], kept: tuple[int, int]
) -> list[Rule]:
    return [
        Rule(f"result of {role} as A or B", role, "d", "matrix", "ab", use, _A),
        Rule(f"result of {role} as part of a 16-bit accumulator", role, "d", "xdl", "c", xdl, _A, SHIFTED),
        Rule(f"result of {role} as part of an f32 accumulator", role, "d", "sgemm", "c", other, _A, SHIFTED),
        Rule(f"result of {role} as part of an f64 accumulator", role, "d", "dgemm", "c", other, _A, SHIFTED),
        Rule(f"result of {role} met by the vector ALU or memory", role, "d", "vector", "v_touch", use, _C),
        Rule(f"accumulator of {role} overwritten", role, "c", "vector", "v_write", kept, _C),
    ]


def _sgemm(role: str, use: States, accumulator: States) -> list[Rule]:
    return [
        Rule(f"result of {role} as A or B", role, "d", "matrix", "ab", use, _A),
        Rule(f"result of {role} as part of an f32 accumulator", role, "d", "sgemm", "c", accumulator, _A, SHIFTED),
        Rule(f"result of {role} as part of an f64 accumulator", role, "d", "dgemm", "c", accumulator, _A, SHIFTED),
        Rule(f"result of {role} met by the vector ALU or memory", role, "d", "vector", "v_touch", use, _C),
    ]


MATRIX_RULES: Final = (
    *(rule for row in _XDL for rule in _xdl(*row)),
    *(rule for row in _SGEMM for rule in _sgemm(*row)),
    Rule("result of xdl2 as the accumulator", "xdl2", "d", "matrix", "c", (2, 2), _A, SAME),
    Rule("result of sgemm2 as the accumulator", "sgemm2", "d", "matrix", "c", (2, 2), _A, SAME),
    Rule("result of dgemm as A or B", "dgemm", "d", "matrix", "ab", (11, 19), _A),
    Rule("result of dgemm as part of an f32 accumulator", "dgemm", "d", "sgemm", "c", (9, 17), _A, SHIFTED),
    Rule("result of dgemm as part of an f64 accumulator", "dgemm", "d", "dgemm", "c", (9, 17), _A, SHIFTED),
    Rule("result of dgemm read by the vector ALU", "dgemm", "d", "valu", "v_read", (11, 19), _C),
    Rule("result of dgemm read by memory", "dgemm", "d", "memory", "v_read", (18, 18), _C),
    Rule("result of dgemm overwritten", "dgemm", "d", "vector", "v_write", (11, 11), _C),
    Rule("f64 multiplication behind a dgemm", "dgemm", "always", "fma64", "always", (2, 2), _C),
)
