"""The code of backward-weights kernels: registers, atomics, loops, and that no problem is in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aot.families import emit
from aot.inspection.hot_loop import kernel_statistics
from aot.toolchain import disassemble, find_toolchain, read_code_object
from tests.aot.kernels.wgrad_machine import LAUNCHED, code_of, sample, wgrad
from tests.aot.samples import fix_up_identity, reduce_identity

PACKED = {"split_k": 2, "epilogue": "cshuffle", "vector_size_c": 4}


def check_resources(arch: str, dtype: str, family: str, count: int) -> None:
    """No scratch memory, no spills, no division."""
    toolchain = find_toolchain()
    for identity in sample(arch, dtype, family, count):
        code = code_of(identity)
        facts = read_code_object(code)
        assert (facts.scratch_bytes, facts.vgpr_spills, facts.sgpr_spills) == (0, 0, 0), identity
        statistics = kernel_statistics(disassemble(toolchain, code))
        assert statistics.hot_loop is not None
        assert (statistics.hot_loop.mix.divisions, statistics.hot_loop.mix.mul_hi) == (0, 0), identity


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("family", LAUNCHED)
def test_loops_divide_nothing_and_nothing_is_spilled(arch: str, family: str) -> None:
    """Pixels are carried, columns decoded once: the K loop has no division, not even as a multiplication."""
    check_resources(arch, "fp16", family, 8)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize("family", LAUNCHED)
def test_no_kernel_of_a_wide_sample_is_spilled(arch: str, family: str, dtype: str) -> None:
    """The same for four hundred kernels of every family."""
    check_resources(arch, dtype, family, 400)


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize(
    ("dtype", "mnemonic"), [("bf16", "global_atomic_pk_add_bf16"), ("fp16", "global_atomic_pk_add_f16")]
)
def test_packed_atomics_are_one_instruction(arch: str, dtype: str, mnemonic: str) -> None:
    """Pairs are added by hardware, never by a compare-and-swap loop."""
    names = [i.mnemonic for i in disassemble(find_toolchain(), code_of(wgrad(arch, dtype, **PACKED)))]
    assert mnemonic in names
    assert not any("cmpswap" in name for name in names)


def test_replicas_are_added_to_by_one_instruction() -> None:
    """Two-stage kernels add f32 numbers in bounds of a buffer."""
    for arch in ("gfx950", "gfx942"):
        identity = wgrad(arch, split_k=2, two_stage=True, ws_replicas=8)
        names = [i.mnemonic for i in disassemble(find_toolchain(), code_of(identity))]
        assert names.count("buffer_atomic_add_f32") == 64 * 64 // 256
        assert not any("cmpswap" in name for name in names)


def test_k_outer_tiles_are_read_by_transposing_reads() -> None:
    """On gfx950 both operands come out of LDS turned, and go in as wide as they were loaded."""
    names = [i.mnemonic for i in disassemble(find_toolchain(), code_of(wgrad(vector_size_a=8, vector_size_b=8)))]
    assert "ds_read_b64_tr_b16" in names
    assert "ds_write_b128" in names
    assert "ds_write_b64" not in names


def test_prefetched_addresses_leave_the_front_of_the_loop() -> None:
    """With prefetch_addr the loop begins with its loads: no vector arithmetic stands in front of the last."""
    kernel = wgrad(tile_m=128, tile_n=128, tile_k=64, vector_size_a=8, vector_size_b=8)
    counts = []
    for ahead in (False, True):
        instructions = disassemble(find_toolchain(), code_of(replace(kernel, prefetch_addr=ahead)))
        hot = kernel_statistics(instructions).hot_loop
        assert hot is not None
        body = [i.mnemonic for i in instructions if any(a <= i.address < z for a, z in hot.spans)]
        last_load = max(at for at, name in enumerate(body) if name.startswith("buffer_load"))
        counts.append(sum(name.startswith("v_") for name in body[:last_load]))
    assert counts[0] > 8
    assert counts[1] == 0


def test_text_depends_on_the_identity_alone() -> None:
    """Emitting twice gives the same text, in both flavors, for every kind of kernel."""
    kinds = [
        wgrad(), wgrad(**PACKED), wgrad(split_k=2, two_stage=True, ws_replicas=8), wgrad(stream_k=True),
        reduce_identity("gfx950", "bf16", 8), fix_up_identity("gfx950", "bf16"),
    ]  # fmt: skip
    for flavor in ("llvm20", "llvm22"):
        texts = [emit(identity, flavor).ir for identity in kinds]
        assert texts == [emit(identity, flavor).ir for identity in kinds]
        assert len(set(texts)) == len(texts)


def test_second_steps_depend_on_the_data_type_alone() -> None:
    """One text serves every architecture."""
    assert emit(reduce_identity("gfx950", "fp16", 8), "llvm22") == emit(reduce_identity("gfx942", "fp16", 8), "llvm22")
    assert emit(fix_up_identity("gfx950", "fp16"), "llvm22") == emit(fix_up_identity("gfx942", "fp16"), "llvm22")
