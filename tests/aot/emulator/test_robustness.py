"""Wild input gives typed errors, never a crash, and nothing is ignored silently."""

from __future__ import annotations

import random

import numpy as np
import pytest

from aot.emulator import Memory, run
from aot.emulator.decode.instruction import decode, know
from aot.emulator.errors import BudgetError, EmulatorError, LaunchError, UnknownInstructionError
from aot.toolchain.errors import CodeObjectError, DisassemblyError
from cache_schema.errors import RockeAotError, UnknownValueError
from tests.aot.emulator.program_text import program, run_program


def _launch(code: bytes, **options: object) -> None:
    defaults: dict[str, object] = {"grid": (1, 1, 1), "block": (64, 1, 1), "kernarg": bytes(16), "memory": Memory()}
    run(code, "k", **{**defaults, **options})  # type: ignore[arg-type]


def test_truncated_and_damaged_code_objects() -> None:
    """Every prefix and a thousand random damages of a code object give a typed error or run to a report."""
    code = program("v_mov_b32_e32 v5, 0\n")
    for length in range(0, len(code), 97):
        with pytest.raises(CodeObjectError):
            _launch(code[:length])
    order = random.Random(5)
    for _ in range(1000):
        damaged = bytearray(code)
        for _ in range(order.randint(1, 8)):
            damaged[order.randrange(len(damaged))] = order.randrange(256)
        try:
            _launch(bytes(damaged), budget=10_000)
        except RockeAotError:
            continue


def test_foreign_bytes() -> None:
    """Text, an empty file and a host ELF are no code objects."""
    for data in (b"", b"hello world" * 100, b"\x7fELF" + bytes(400)):
        with pytest.raises(CodeObjectError):
            _launch(data)


def test_wrong_symbol_target_and_extent() -> None:
    """A launch that does not fit its code object is refused with what would fit."""
    code = program("v_mov_b32_e32 v5, 0\n")
    with pytest.raises(LaunchError, match="not 'other'"):
        run(code, "other", grid=(1, 1, 1), block=(64, 1, 1), kernarg=bytes(16), memory=Memory())
    for bad in (
        {"target": "gfx942"},
        {"block": (2048, 1, 1)},
        {"block": (0, 1, 1)},
        {"kernarg": bytes(8)},
        {"kernarg": bytes(64)},
        {"dynamic_lds": 1 << 20},
        {"grid": (1, 1)},
        {"grid": (-1, 1, 1)},
    ):
        with pytest.raises(LaunchError):
            _launch(code, **bad)
    with pytest.raises(UnknownValueError):
        _launch(code, engine="gpu")


@pytest.mark.parametrize("engine", ["llvm", "numpy"])
def test_endless_loop_ends_with_the_budget(engine: str) -> None:
    """A loop without end is a typed error that names the place."""
    code = program(".Lloop:\n s_add_i32 s20, s20, 1\n s_branch .Lloop\n")
    with pytest.raises(BudgetError, match="0x"):
        run_program(code, np.zeros(64, np.uint32), engine=engine, budget=10_000)


@pytest.mark.parametrize("engine", ["llvm", "numpy"])
def test_running_off_the_code_is_a_trap(engine: str) -> None:
    """Code that ends without s_endpgm is a fault, not a crash."""
    code = program("s_branch .Lpast\n s_endpgm\n.Lpast:\n v_mov_b32_e32 v5, 0\n").replace(
        bytes.fromhex("000081bf"), bytes.fromhex("000080bf")
    )
    report = run_program(code, np.zeros(64, np.uint32), engine=engine)
    assert [fault.kind for fault in report.faults] == ["trap"]


UNKNOWN = [
    ("v_frobnicate_b32", "v0, v1"),
    ("v_add_u32_e32", "v0, v1"),
    ("v_add_u32_e64", "v0, v1, v2 mul:3"),
    ("v_add_u32_e64", "v0, v1, v2 op_sel_hi:[0,0]"),
    ("v_add_f32_e64", "v0, v1, v2 frob"),
    ("v_mov_b32_e32", "v0, q1"),
    ("v_mov_b32_e32", "s0, v1"),
    ("v_mov_b32_e32", "v0, v[1:2]"),
    ("s_add_u32", "s0, s1, v2"),
    ("s_waitcnt", "bananacnt(0)"),
    ("v_add_u32_e64", "v0, -v1, v2"),
    ("v_mfma_f32_32x32x8_f16", "v[0:15], v[16:17], v[18:19], v[0:15] cbsz:1"),
    ("v_mfma_f32_32x32x8_f16", "v[0:14], v[16:17], v[18:19], v[0:15]"),
    ("buffer_load_dword", "v0, v1, s[0:3], 0 idxen"),
    ("buffer_load_dword", "v0, v1, s[0:3], 0 offen glc"),
    ("buffer_load_dwordx2", "v1, s[0:3], 0 offen lds"),
    ("ds_read_b32", "v0, v1 gds"),
    ("ds_read2_b32", "v[0:1], v2 offset:4"),
    ("global_load_dword", "v0, v1, off"),
    ("v_mov_b32_dpp", "v0, v1 row_frob:1 row_mask:0xf bank_mask:0xf"),
    ("s_getreg_b32", "s0, 5"),
    ("v_mul_lo_u32", "v0, v1, v2 clamp"),
    ("v_pk_fma_f32", "v[0:1], v[2:3], v[4:5], 1.0"),
    ("ds_swizzle_b32", "v0, v1 offset:swizzle(FFT,31)"),
]


@pytest.mark.parametrize(("mnemonic", "operands"), UNKNOWN, ids=[f"{m} {o}" for m, o in UNKNOWN])
def test_unknown_forms_are_refused(mnemonic: str, operands: str) -> None:
    """An unknown mnemonic, operand or modifier stops with an error that carries the text and the address."""
    with pytest.raises(UnknownInstructionError) as caught:
        know(0x1000, 8, mnemonic, operands, "gfx950")
    assert caught.value.pc == 0x1000
    assert mnemonic in str(caught.value)


ONLY_GFX950 = [
    ("buffer_atomic_pk_add_bf16", "v0, v1, s[0:3], 0 offen"),
    ("v_mfma_f32_32x32x16_bf16", "v[0:15], v[16:19], v[20:23], v[0:15]"),
    ("v_cvt_pk_bf16_f32", "v0, v1, v2"),
    ("ds_read_b64_tr_b16", "v[0:1], v2"),
    ("v_permlane32_swap_b32_e32", "v0, v1"),
    ("buffer_load_dwordx4", "v1, s[0:3], 0 offen lds"),
    ("global_load_lds_dwordx4", "v[0:1], off"),
    ("v_bitop3_b32", "v0, v1, v2, v3 bitop3:0x78"),
]


@pytest.mark.parametrize(("mnemonic", "operands"), ONLY_GFX950, ids=[m for m, _ in ONLY_GFX950])
def test_gfx950_instructions_do_not_exist_on_gfx942(mnemonic: str, operands: str) -> None:
    """What came with gfx950 decodes there and is refused on gfx942; the global bf16 atomic is on both."""
    decode(mnemonic, operands, "gfx950")
    with pytest.raises(UnknownInstructionError, match="gfx942"):
        decode(mnemonic, operands, "gfx942")
    decode("global_atomic_pk_add_bf16", "v0, v1, s[0:1]", "gfx942")


def test_error_family() -> None:
    """Everything the emulator refuses is one of the project's errors."""
    assert issubclass(EmulatorError, RockeAotError)
    assert issubclass(DisassemblyError, RockeAotError)
