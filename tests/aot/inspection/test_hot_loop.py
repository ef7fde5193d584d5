"""Loop statistics of hand-written kernels, against counts that can be read off the text."""

from __future__ import annotations

import pytest

from aot.inspection import instruction_classes as classes
from aot.inspection.hot_loop import kernel_statistics
from tests.aot.inspection.listing import assemble

TWO_LOOPS = """
    s_load_dwordx4 s[0:3], s[4:5], 0x0
    s_waitcnt lgkmcnt(0)
    v_rcp_iflag_f32_e32 v9, v9
    s_cbranch_scc0 general
uniform:
    buffer_load_dwordx4 v[0:3], v4, s[8:11], s6 offen
    buffer_load_dwordx4 v4, s[8:11], s6 offen lds
    s_waitcnt vmcnt(0)
    ds_write_b128 v5, v[0:3]
    s_barrier
    ds_read_b128 v[8:11], v5
    v_mfma_f32_32x32x16_bf16 a[0:15], v[8:11], v[8:11], a[0:15]
    v_mfma_f32_32x32x16_bf16 a[16:31], v[8:11], v[8:11], a[16:31]
    s_nop 1
    s_add_i32 s6, s6, 64
    s_cbranch_scc1 uniform
    s_branch epilogue
general:
    v_rcp_iflag_f32_e32 v20, v21
    v_mul_hi_u32 v20, v21, v22
    v_add_u32_e32 v20, v21, v22
    buffer_load_dwordx4 v[0:3], v20, s[8:11], 0 offen
    s_cbranch_execz clear
    v_accvgpr_read_b32 v0, a0
clear:
    s_waitcnt vmcnt(0)
    ds_write_b128 v5, v[0:3]
    s_barrier
    ds_read_b128 v[8:11], v5
    v_mfma_f32_32x32x16_bf16 a[0:15], v[8:11], v[8:11], a[0:15]
    v_mfma_f32_32x32x16_bf16 a[16:31], v[8:11], v[8:11], a[16:31]
    s_cbranch_scc1 general
tail:
    v_mfma_f32_16x16x16_bf16 a[0:3], v[0:1], v[2:3], a[0:3]
    s_cbranch_scc1 tail
epilogue:
    buffer_store_short v0, v1, s[8:11], 0 offen
    s_endpgm
    s_nop 0
"""


def test_all_loops_are_reported_and_the_lean_one_is_hot() -> None:
    """Two K loops chosen by a uniform test are two loops; the tail, lean but small, is not the hot one."""
    statistics = kernel_statistics(assemble(TWO_LOOPS))
    assert [loop.mix.mfma for loop in statistics.loops] == [2, 2, 1]
    assert statistics.hot == 0
    uniform, general, tail = (loop.mix for loop in statistics.loops)
    assert (uniform.valu, uniform.salu, uniform.lds, uniform.vmem, uniform.vmem_to_lds) == (0, 2, 2, 2, 1)
    assert (uniform.waits, uniform.barriers, uniform.nops, uniform.nop_clk, uniform.divisions) == (1, 1, 1, 8, 0)
    assert (general.valu, general.salu, general.divisions, general.mul_hi, general.accvgpr_moves) == (4, 2, 1, 1, 1)
    assert uniform.by_shape == (("32x32x16_bf16", 2),)
    assert tail.by_shape == (("16x16x16_bf16", 1),)
    assert tail.share > uniform.share


def test_the_figure_of_merit_is_its_formula() -> None:
    """S of the lean loop: 64 MFMA clk, eight other instructions of 4 clk, 8 clk of s_nop."""
    mix = kernel_statistics(assemble(TWO_LOOPS)).loops[0].mix
    assert mix.mfma_clk == 64
    assert mix.total == 11
    assert mix.share == pytest.approx(64 / (64 + 4 * 8 + 8))
    assert mix.valu_per_16 == 0


@pytest.mark.parametrize(
    ("mfma", "others", "published"),
    [(16 * 32, 56, 0.70), (4 * 32, 56, 0.36), (256 * 16, 220, 0.82), (32 * 32, 127, 0.67)],
)
def test_published_loops_get_their_published_figure(mfma: int, others: int, published: float) -> None:
    """Loops given by their counts only: the statistic agrees with figures that were computed elsewhere."""
    text = "head:\n" + "v_mfma_f32_32x32x16_bf16 a[0:15], v[0:3], v[0:3], a[0:15]\n" * (mfma // 32)
    text += "v_add_u32_e32 v0, v0, v0\n" * (others - 1) + "s_cbranch_scc1 head\ns_endpgm\n"
    hot = kernel_statistics(assemble(text)).hot_loop
    assert hot is not None
    assert round(hot.mix.share, 2) == published


def test_an_outer_loop_that_drains_is_reported_beside_the_inner_one() -> None:
    """What an outer loop multiplies itself is its own row, without the inner loop's instructions."""
    text = """
    outer:
    inner:
        v_mfma_f32_16x16x32_f16 a[0:3], v[0:3], v[0:3], a[0:3]
        s_cbranch_scc1 inner
        v_mfma_f32_16x16x32_f16 a[0:3], v[0:3], v[0:3], a[0:3]
        v_add_u32_e32 v0, v0, v0
        s_cbranch_scc1 outer
        s_endpgm
    """
    # Both loops begin at one address: the padding keeps the headers apart.
    statistics = kernel_statistics(assemble(text.replace("inner:", "s_nop 0\n    inner:")))
    assert [(loop.depth, loop.innermost, loop.mix.mfma) for loop in statistics.loops] == [(0, False, 1), (1, True, 1)]
    assert statistics.hot == 1
    assert statistics.loops[0].mix.valu == 1


def test_padding_and_the_rest_of_the_kernel() -> None:
    """The whole kernel counts what can be reached, divisions outside of loops included; no loop, no hot loop."""
    lines = assemble(TWO_LOOPS)
    statistics = kernel_statistics(lines)
    assert statistics.kernel.total == len(lines) - 1
    assert statistics.kernel.divisions == 2
    assert statistics.code_bytes == sum(line.size for line in lines) - 4
    straight = kernel_statistics(assemble("v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[0:1], a[0:3]\ns_endpgm"))
    assert straight.hot is None
    assert straight.hot_loop is None
    assert straight.kernel.mfma == 1
    assert straight.to_json()["loops"] == []


def test_every_instruction_belongs_to_a_unit() -> None:
    """Classes by mnemonic; a mnemonic of another target is an error and not a guess."""
    expected = {
        "v_mfma_f32_32x32x8_f16": "mfma", "v_add_u32_e32": "valu", "s_add_i32": "salu", "s_load_dwordx2": "smem",
        "s_buffer_load_dword": "smem", "ds_read_b64_tr_b16": "lds", "buffer_load_dwordx4": "vmem", "s_nop": "nop",
        "global_atomic_pk_add_bf16": "vmem", "scratch_store_dword": "vmem", "s_waitcnt": "wait", "s_barrier": "barrier",
        "s_setprio": "salu", "v_accvgpr_write_b32": "valu",
    }  # fmt: skip
    assert {name: classes.instruction_class(name) for name in expected} == expected
    with pytest.raises(ValueError, match="tensor_load"):
        classes.instruction_class("tensor_load_to_lds")


@pytest.mark.parametrize(
    ("mnemonic", "shape", "clk"),
    [
        ("v_mfma_f32_32x32x16_bf16", "32x32x16_bf16", 32),
        ("v_mfma_f32_16x16x32_f16", "16x16x32_f16", 16),
        ("v_mfma_f32_32x32x8_f16", "32x32x8_f16", 32),
        ("v_mfma_f32_32x32x8_bf16", "32x32x8_bf16", 32),
        ("v_mfma_f32_32x32x8bf16_1k", "32x32x8_bf16_1k", 32),
        ("v_mfma_f32_16x16x16_bf16", "16x16x16_bf16", 16),
        ("v_mfma_f32_16x16x4_f32", "16x16x4_f32", 32),
        ("v_mfma_f32_32x32x2_f32", "32x32x2_f32", 64),
        ("v_mfma_f32_4x4x4_16b_f16", "4x4x4_f16", 8),
    ],
)
def test_matrix_instructions_by_name(mnemonic: str, shape: str, clk: int) -> None:
    """Shape and clocks of every matrix instruction in use."""
    assert classes.mfma_shape(mnemonic) == shape
    assert classes.mfma_clk(mnemonic) == clk


def test_loads_to_lds_are_told_from_loads_to_registers() -> None:
    """By the modifier or by the name."""
    assert classes.is_load_to_lds("buffer_load_dwordx4", "v4, s[8:11], 0 offen lds")
    assert classes.is_load_to_lds("global_load_lds_dwordx4", "v[0:1], off")
    assert not classes.is_load_to_lds("buffer_load_dwordx4", "v[0:3], v4, s[8:11], 0 offen")
    assert not classes.is_load_to_lds("buffer_store_dword", "v0, v4, s[8:11], 0 offen")
