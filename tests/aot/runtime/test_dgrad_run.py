"""Backward-data kernels on the emulator: right by the derived bound, and equal bit for bit where they must be.

dX starts as NaN everywhere, so a pixel that nobody writes is a wrong result.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aot.kernels.dgrad_table import RECORD_WORDS
from aot.runtime.bounds import compare
from aot.runtime.emulator_device import EmulatorDevice
from aot.runtime.float16 import quiet_nan, widen
from aot.runtime.inputs import make_inputs
from aot.runtime.plan import make_plan
from aot.runtime.reference import reference
from aot.verification.edges import edge_cases
from aot.verification.run_case import run_case
from cache_schema.label import encode
from cache_schema.problem import ConvProblem
from grids.catalogue import buildable
from grids.gemm.records import Dgrad
from grids.selection import spread
from tests.aot.dgrad_kernels import Kernel, compiled, dgrad, problem, unfolded

#: Odd images, one image, filters of all shapes, pads, partial tiles in M, N and K, groups, widths, the lean K loop.
DENSE = {
    "odd": problem(n=1, h=7, w=13, c=64, k=32, y=3, x=3, pad_h=1, pad_w=1),
    "ragged-k": problem(n=2, h=5, w=4, c=36, k=40, y=3, x=3, pad_h=1, pad_w=1),
    "five": problem(n=1, h=6, w=9, c=48, k=32, y=5, x=5, pad_h=2, pad_w=2),
    "unpadded": problem(n=2, h=6, w=6, c=24, k=64, y=3, x=3),
    "grouped": problem(n=2, h=5, w=5, c=120, k=96, y=3, x=3, pad_h=1, pad_w=1, groups=3),
    "narrow-groups": problem(n=2, h=3, w=5, c=32, k=32, y=3, x=3, pad_h=1, pad_w=1, groups=8),
    "point": problem(n=3, h=5, w=7, c=40, k=200),
    "grouped-point": problem(n=2, h=4, w=4, c=64, k=128, groups=2),
    "row": problem(n=1, h=5, w=9, c=8, k=32, y=1, x=7, pad_w=3),
    "column": problem(n=1, h=9, w=1, c=8, k=36, y=3, x=1, pad_h=1),
    "one-pixel": problem(n=5, h=1, w=1, c=8, k=32, y=3, x=3, pad_h=1, pad_w=1),
    "wide-pad": problem(n=1, h=4, w=5, c=8, k=32, y=3, x=2, pad_h=4, pad_w=3),
    "many-taps": problem(n=1, h=4, w=3, c=8, k=32, y=7, x=7, pad_h=3, pad_w=3),
}
#: Stride and dilation of each axis, tilde kernels only.
STEPS = [((1, 1), (2, 1)), ((2, 2), (1, 1)), ((3, 2), (1, 2)), ((2, 4), (2, 3)), ((4, 3), (2, 2)), ((1, 3), (4, 3))]

ARCHS = ("gfx950", "gfx942")


def folded_kernels(arch: str) -> list[Dgrad]:
    """One of either epilogue; compv3 prefetches."""
    wide = {"epilogue": "cshuffle", "pipeline": "compv3", "vector_size_a": 8, "vector_size_b": 8, "vector_size_c": 8}
    return [dgrad(arch, folded=True), dgrad(arch, folded=True, **wide)]  # type: ignore[arg-type]


def dx_of(kernel: Dgrad, of: ConvProblem, kind: str = "uniform") -> npt.NDArray[np.uint16]:
    """dX of one kernel for the operands of this kind."""
    return compiled(kernel).run(of, *make_inputs(of, kind, 3))


def assert_right(dx: npt.NDArray[np.uint16], of: ConvProblem, kind: str = "uniform") -> None:
    verdict = compare(dx, reference(of, *make_inputs(of, kind, 3)), of.dtype)
    assert verdict.right, verdict


def serves(kernel: Dgrad, of: ConvProblem) -> bool:
    return of.kpg % kernel.vector_size_a == 0 and of.cpg % max(kernel.vector_size_b, kernel.vector_size_c) == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_stride_1_kernels_are_right_and_equal_to_tilde_kernels(arch: str) -> None:
    """Every dense shape meets the bound, and the kernel for any stride gives the same bits."""
    runs = 0
    for kernel, of in product(folded_kernels(arch), DENSE.values()):
        if not serves(kernel, of):
            continue
        dx = dx_of(kernel, of)
        assert_right(dx, of)
        assert np.array_equal(dx, dx_of(unfolded(kernel), of)), of
        runs += 1
    assert runs > 18


@pytest.mark.parametrize("arch", ARCHS)
def test_strides_and_dilations(arch: str) -> None:
    """Lattices of several depths, with and without gaps that the zero fill has to cover."""
    filled = 0
    kernels = [unfolded(kernel) for kernel in folded_kernels(arch)]
    for number, ((strides, dilations), (y, x), k) in enumerate(product(STEPS, ((3, 2), (1, 1)), (32, 24))):
        of = problem(
            n=2, h=11, w=10, c=16, k=k, y=y, x=x, pad_h=2, pad_w=1, stride_h=strides[0], stride_w=strides[1],
            dilation_h=dilations[0], dilation_w=dilations[1],
        )  # fmt: skip
        kernel = kernels[number % 2]
        assert_right(dx_of(kernel, of), of)
        filled += bool(make_plan(compiled(kernel), of).zeroed)
    assert 5 < filled < 24


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["nan", "inf", "ints"])
def test_specials_stay_where_they_belong(arch: str, kind: str) -> None:
    """NaN and infinity reach the pixels of their taps alone, also from the last, partial K tile; integers are exact."""
    for name in ("ragged-k", "grouped", "narrow-groups"):
        of = DENSE[name]
        for kernel in (folded_kernels(arch)[0], unfolded(folded_kernels(arch)[0])):
            assert_right(dx_of(kernel, of, kind), of, kind)
    of = replace(DENSE["grouped"], stride_h=2, stride_w=3)
    assert_right(dx_of(unfolded(folded_kernels(arch)[1]), of, kind), of, kind)


@pytest.mark.parametrize("arch", ARCHS)
def test_weights_of_other_taps_do_not_leak(arch: str) -> None:
    """The last K tile of a lattice ends inside the weights of a tap that belongs to another lattice: all NaN there."""
    of = problem(n=1, h=7, w=9, c=24, k=40, y=3, x=3, pad_h=1, pad_w=1, stride_h=2, stride_w=2)
    dy, w = make_inputs(of, "ints", 3)
    w = w.copy()
    w[:, 0] = quiet_nan(of.dtype)
    exact = reference(of, dy, w)
    assert np.isnan(exact.value).any()
    assert np.isfinite(exact.value[:, 0::2]).all()
    for kernel in folded_kernels(arch):
        dx = compiled(unfolded(kernel)).run(of, dy, w)
        assert np.isfinite(widen(dx, of.dtype)[:, 0::2]).all()
        assert compare(dx, exact, of.dtype).right


@pytest.mark.parametrize(
    "fields", [{"uniform_k_decode": False}, {"lds_k_outer": False}], ids=lambda fields: next(iter(fields))
)
def test_options_of_the_code_do_not_change_results(fields: dict[str, bool]) -> None:
    """Counted or uniform taps, B turned in LDS by reads or by writes: equal bits, lean problems and ragged ones."""
    for kernel in folded_kernels("gfx950"):
        other = replace(kernel, **fields)  # type: ignore[arg-type]
        assert other != kernel
        for name in ("odd", "ragged-k", "grouped", "five"):
            if serves(kernel, DENSE[name]):
                assert np.array_equal(dx_of(kernel, DENSE[name]), dx_of(other, DENSE[name])), name
        of = replace(DENSE["odd"], stride_h=2, stride_w=2)
        assert np.array_equal(dx_of(unfolded(kernel), of), dx_of(unfolded(other), of))


@pytest.mark.parametrize("folded", [True, False])
def test_magic_pairs_in_another_order_are_noticed(folded: bool) -> None:
    """Swapping any two pairs of the table gives wrong results: the kernel reads them where the host writes them."""
    of = problem(n=3, h=5, w=7, c=8, k=40, y=2, x=3, pad_h=1, pad_w=1)
    kernel = compiled(dgrad(folded=folded))
    plan, operands = make_plan(kernel, of), make_inputs(of, "ints", 3)
    exact = reference(of, *operands)
    words = plan.buffer("sub_gemms").contents
    assert words is not None
    for first, second in combinations(range(4), 2):
        swapped = list(words)
        for part in (0, 1):
            a, b = RECORD_WORDS + 2 * first + part, RECORD_WORDS + 2 * second + part
            swapped[a], swapped[b] = swapped[b], swapped[a]
        table = replace(plan.buffer("sub_gemms"), contents=tuple(swapped))
        dx = np.full(of.x_shape, 0x7FFF, np.uint16)
        arrays = {"dy": operands[0].copy(), "w": operands[1].copy(), "dx": dx}
        spoiled = replace(plan, buffers=(*plan.buffers[:3], table))
        EmulatorDevice(1).execute(spoiled, arrays, lambda _digest: kernel.code)
        assert not compare(dx, exact, of.dtype).right, (first, second)


def test_narrow_accesses_and_both_types() -> None:
    """Widths of one, odd channels, fp16."""
    for arch in ARCHS:
        kernel = dgrad(arch, "fp16", vector_size_a=1, vector_size_b=1, tile_k=64, pipeline="compv4")
        for of in (
            problem("fp16", n=2, h=5, w=4, c=15, k=13, y=3, x=3, pad_h=1, pad_w=1, stride_h=2),
            problem("fp16", n=1, h=4, w=5, c=3, k=64, y=2, x=4, pad_w=2),
            problem("fp16", n=1, h=3, w=3, c=33, k=9, groups=3),
        ):
            assert_right(dx_of(kernel, of), of)


def test_an_empty_lattice_needs_no_kernel() -> None:
    """A plan without records fills dX and launches nothing."""
    of = problem(n=1, h=1, w=1, y=1, x=1, pad_h=1, pad_w=1, stride_h=3, stride_w=3, c=8, k=8)
    kernel = compiled(dgrad())
    assert_right(kernel.run(of, *make_inputs(of, "ints", 3)), of, "ints")


def verify(kernel: Kernel) -> int:
    """All edge cases of one kernel; how many there were."""
    devices = (EmulatorDevice(1), EmulatorDevice(2))
    cases = edge_cases(kernel.identity)
    for case in cases:
        result = run_case(case, make_plan(kernel, case.problem), devices, lambda _digest: kernel.code, 1)
        assert not result.failure, (encode(kernel.identity), case.name, result.failure)
    return len(cases)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_few_of_the_catalogue(arch: str) -> None:
    """The edge cases of kernels spread over the axes of the smaller tiles."""
    table = buildable(arch, ["bf16"], ["dgrad"])
    small = (table.columns["tile_m"] <= 32) & (table.columns["tile_n"] <= 32)
    for identity in _rows(arch, "bf16", 10, small):
        assert verify(compiled(identity)) >= 8


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_stratified_sample_of_the_catalogue(arch: str, dtype: str) -> None:
    """The edge cases of kernels spread over all axes: 2,000 per architecture."""
    assert sum(verify(compiled(identity)) for identity in _rows(arch, dtype, 1000, None)) >= 8000


def _rows(arch: str, dtype: str, count: int, mask: npt.NDArray[np.bool_] | None) -> list[Any]:
    table = buildable(arch, [dtype], ["dgrad"])
    chosen = spread(table if mask is None else table.take(np.flatnonzero(mask)), count)
    return [chosen.row(number) for number in range(len(chosen))]
