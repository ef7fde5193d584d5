"""The walk over filter taps: with known arguments every offset folds to a number, compared with the definition."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from aot.ir.builder import Builder
from aot.ir.flavor import flavor
from aot.ir.types import GLOBAL_PTR
from aot.ir.values import Value, constant
from aot.kernels.forward_values import forward_values
from aot.kernels.rows import image_rows, missing_taps
from aot.kernels.streams import GeneralStream, UniformStream, Walk, filter_taps
from cache_schema.problem import ELEM_BYTES, ConvProblem
from tests.aot.ir.host import on_host
from tests.aot.samples import forward

TILE_K, ELEM = 32, ELEM_BYTES["bf16"]
WORD = 2**32


def problems() -> Iterator[ConvProblem]:
    """Channels below, at, above and between multiples of the tile; filters of every aspect; strides and dilations."""
    chance = random.Random(7)
    for cpg in (1, 3, 8, 24, 32, 33, 64, 96, 100):
        for _ in range(6):
            y, x = chance.choice([(1, 1), (3, 3), (1, 5), (5, 1), (2, 3), (6, 6), (31, 1), (1, 32)])
            pad_h, pad_w = chance.randrange(y + 1), chance.randrange(x + 1)
            dil_h, dil_w = chance.choice([1, 1, 2, 3]), chance.choice([1, 1, 2])
            yield ConvProblem(
                "fwd", "bf16", n=chance.choice([1, 2]), c=2 * cpg, k=8, groups=2, y=y, x=x,
                h=max(1, dil_h * (y - 1) + chance.choice([1, 4, 6]) - pad_h),
                w=max(1, dil_w * (x - 1) + chance.choice([1, 3, 7]) - pad_w),
                pad_h=pad_h, pad_w=pad_w, dilation_h=dil_h, dilation_w=dil_w,
                stride_h=chance.choice([1, 2, 3]), stride_w=chance.choice([1, 2]),
            )  # fmt: skip


PROBLEMS = list(problems())


def known(problem: ConvProblem) -> dict[str, Value]:
    """Kernel arguments as constants, and pointers."""
    scalars = forward_values(forward(tile_k=TILE_K), problem)
    return {name: constant(value) for name, value in scalars.items()} | {
        name: Value(GLOBAL_PTR, f"%{name}") for name in "ABD"
    }


def pixel_offset(problem: ConvProblem, m: int, k: int) -> int | None:
    """Byte offset in the input of element k of output pixel m, in channels of group 0; None where there is none."""
    n, rest = divmod(m, problem.ho * problem.wo)
    ho, wo = divmod(rest, problem.wo)
    tap, c = divmod(k, problem.cpg)
    y, x = divmod(tap, problem.x)
    hi = ho * problem.stride_h - problem.pad_h + y * problem.dilation_h
    wi = wo * problem.stride_w - problem.pad_w + x * problem.dilation_w
    inside = n < problem.n and y < problem.y and 0 <= hi < problem.h and 0 <= wi < problem.w
    return 2 * (((n * problem.h + hi) * problem.w + wi) * problem.c + c) if inside else None


def lane(value: Value) -> int:
    """A folded offset as the hardware sees it."""
    assert value.const is not None
    return value.const % WORD


@pytest.mark.parametrize("problem", PROBLEMS, ids=range(len(PROBLEMS)))
def test_the_general_walk(problem: ConvProblem) -> None:
    """For every pixel, column and tile the offset is the element's own, or out of bounds where it has none."""
    b, args = Builder(), known(problem)
    pixels = list(range(problem.n * problem.ho * problem.wo + 3))
    rows = image_rows(b, args, [constant(m) for m in pixels])
    tiles = -(-problem.y * problem.x * problem.cpg // TILE_K)
    for col in (0, 1, 7, TILE_K - 1):
        walk = Walk(flavor("llvm22"), TILE_K, ELEM, constant(col), constant(col), constant(0), constant(0))
        stream = GeneralStream(b, args, walk)
        state = stream.start()
        for tile in range(tiles + 1):
            a, w = stream.views(state)
            k = tile * TILE_K + col
            for m, entry in zip(pixels, stream.entries(rows), strict=True):
                offset, expected = lane(a.offset(entry)), pixel_offset(problem, m, k)
                assert offset >= 2**31 if expected is None else offset == expected, (m, k)
            in_range = k < problem.y * problem.x * problem.cpg
            assert lane(w.offset(constant(64))) == (64 if in_range else 2**31)
            assert w.scalar.const == tile * TILE_K * 2
            state = stream.advance(state)


UNIFORM = [p for p in PROBLEMS if p.cpg % TILE_K == 0 and p.y * p.x <= 31]


@pytest.mark.parametrize("problem", UNIFORM, ids=range(len(UNIFORM)))
def test_the_uniform_walk(problem: ConvProblem) -> None:
    """Lane and scalar offset add up to the element's own behind the origin, or the lane offset is out of bounds;
    behind the last tile the weights are those of the last."""
    b, args = Builder(), known(problem)
    assert args["uniform_taps"].const == 1
    pixels = list(range(problem.n * problem.ho * problem.wo + 3))
    rows = image_rows(b, args, [constant(m) for m in pixels])
    missing = taps_on_host(problem, pixels)
    origin = lane(args["a_origin_bytes"])
    for col in (0, TILE_K - 8):
        walk = Walk(flavor("llvm22"), TILE_K, ELEM, constant(col), constant(col), constant(0), constant(0))
        stream = UniformStream(b, args, walk)
        state = stream.start()
        tiles = problem.y * problem.x * problem.cpg // TILE_K
        for tile in range(tiles + 1):
            a, w = stream.views(state)
            for m, row, taps in zip(pixels, rows, missing, strict=True):
                offset = lane(a.offset(stream.localised((row.start_bytes, constant(taps)))))
                expected = pixel_offset(problem, m, tile * TILE_K + col)
                if expected is None:
                    assert offset >= 2**31
                else:
                    assert offset + lane(a.scalar) == expected + origin
            assert w.scalar.const == min(tile, tiles - 1) * TILE_K * 2
            state = stream.advance(state)


def taps_on_host(problem: ConvProblem, pixels: list[int]) -> list[int]:
    """`missing_taps` of these pixels, executed, and compared with the definition."""

    def program(b: Builder, inputs: list[Value]) -> list[Value]:
        args = known(problem)
        return missing_taps(b, filter_taps(args), image_rows(b, args, inputs))

    words = on_host(program, pixels)
    for m, word in zip(pixels, words, strict=True):
        for tap in range(32):
            assert (word >> tap & 1) == (pixel_offset(problem, m, tap * problem.cpg) is None), (m, tap)
    return words


def test_both_walks_are_reached() -> None:
    """The sample has problems for each loop, and the host chooses by channels and taps."""
    assert len(UNIFORM) >= 10
    assert len(PROBLEMS) - len(UNIFORM) >= 20
    chosen = {forward_values(forward(tile_k=TILE_K), problem)["uniform_taps"] for problem in PROBLEMS}
    assert chosen == {0, 1}
