"""Runs single instructions through the emulator: assembles them into tiny kernels that load operands and store results.

A *lane case* is one vector instruction whose 64 lanes get operands of their own; a *wave case* is a piece of scalar
code with one operand set per workgroup. Many cases share a kernel, many workgroups share a launch. Encoding, decoding
and the memory instructions around the case are therefore part of what is tested.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from aot import emulator

Words = npt.NDArray[np.uint32]

LANES = 64
#: Bytes before the operand planes of a workgroup: the EXEC mask of its cases.
HEADER_BYTES = 64
ALL_LANES = (1 << LANES) - 1
#: Where a lane case finds its operands; 64-bit tuples are aligned to even registers.
SOURCE_REGISTERS = (4, 8, 12)
RESULT_REGISTER = 16
EXTRA_REGISTER = 40
#: Planes of 256 bytes that the offset of a global access reaches.
REACH = 15
MASK_IN = "s[22:23]"
MASK_OUT = "s[20:21]"


@dataclass(frozen=True)
class LaneCase:
    """One vector instruction over v[4..], v[8..], v[12..] into v[16..]. Widths count dwords, 0 is absent.

    With `mask_in`, s[22:23] and VCC hold a per-lane bit. `mask_out` names a mask register to store, "" for none;
    `exec_out` stores EXEC after the instruction. `setup` runs before with all lanes on, `teardown` after. `extra` more
    dwords are stored from v[40..]; `registers` are the first registers of the sources.
    """

    key: str
    text: str
    sources: tuple[int, ...]
    result: int
    mask_in: bool = False
    mask_out: str = ""
    exec_out: bool = False
    setup: str = ""
    teardown: str = ""
    extra: int = 0
    registers: tuple[int, ...] = SOURCE_REGISTERS

    @property
    def planes_in(self) -> int:
        return sum(self.sources) + self.result + int(self.mask_in)

    @property
    def planes_out(self) -> int:
        return self.result + bool(self.mask_out) + int(self.exec_out) + self.extra


@dataclass(frozen=True)
class WaveCase:
    """Scalar code with `inputs` dwords in s[40:..] (at most 16) and `outputs` dwords from s[60:..] (at most 16)."""

    key: str
    text: str
    inputs: int
    outputs: int


def register(first: int, dwords: int, kind: str = "v") -> str:
    """Assembly name of a register tuple."""
    return f"{kind}{first}" if dwords == 1 else f"{kind}[{first}:{first + dwords - 1}]"


def lane_block(case: LaneCase) -> str:
    """Loads the operands of a case, runs it under the workgroup's EXEC mask, stores results, advances both pointers."""
    shapes = [*zip(case.registers, case.sources, strict=False), (RESULT_REGISTER, case.result), (24, int(case.mask_in))]
    names = [f"v{first + i}" for first, dwords in shapes for i in range(dwords)]
    lines: list[str] = []
    for plane, name in enumerate(names):
        lines.append(f"global_load_dword {name}, v0, s[4:5] offset:{256 * (plane % REACH)}")
        if plane % REACH == REACH - 1:
            lines += advance(4, 256 * REACH)
    lines += advance(4, 256 * (len(names) % REACH))
    lines.append("s_waitcnt vmcnt(0)")
    if case.mask_in:
        lines += [f"v_cmp_ne_u32_e64 {MASK_IN}, 0, v24", f"s_mov_b64 vcc, {MASK_IN}"]
    if case.setup:
        lines.append(case.setup)
    lines += ["s_mov_b64 exec, s[26:27]", "s_nop 4", case.text, "s_nop 4", "s_mov_b64 s[24:25], exec"]
    lines.append("s_mov_b64 exec, -1")
    if case.teardown:
        lines.append(case.teardown)
    stores = [f"v{RESULT_REGISTER + i}" for i in range(case.result)]
    if case.mask_out:
        lines.append(f"v_cndmask_b32_e64 v25, 0, 1, {case.mask_out}")
        stores.append("v25")
    if case.exec_out:
        lines.append("v_cndmask_b32_e64 v26, 0, 1, s[24:25]")
        stores.append("v26")
    stores += [f"v{EXTRA_REGISTER + i}" for i in range(case.extra)]
    assert len(stores) <= REACH
    lines += [f"global_store_dword v0, {name}, s[6:7] offset:{256 * i}" for i, name in enumerate(stores)]
    return "\n".join(lines + advance(6, 256 * len(stores)))


def advance(low: int, amount: int) -> list[str]:
    """Adds to the 64-bit pointer in s[low:low+1]; this clobbers SCC."""
    return [f"s_add_u32 s{low}, s{low}, {amount}", f"s_addc_u32 s{low + 1}, s{low + 1}, 0"]


def wave_block(case: WaveCase) -> str:
    """Loads scalar operands, runs the case, and stores its outputs from lane 0."""
    lines = [f"s_load_dword s{40 + i}, s[4:5], {4 * i}" for i in range(case.inputs)]
    lines += ["s_waitcnt lgkmcnt(0)", case.text, "s_mov_b64 exec, 1"]
    for i in range(case.outputs):
        lines += [f"v_mov_b32_e32 v{2 + i}, s{60 + i}", f"global_store_dword v1, v{2 + i}, s[6:7] offset:{4 * i}"]
    lines.append("s_mov_b64 exec, -1")
    return "\n".join(lines + advance(4, 4 * case.inputs) + advance(6, 4 * case.outputs))


PROLOGUE = f"""\
s_load_dwordx4 s[4:7], s[0:1], 0
s_load_dwordx2 s[8:9], s[0:1], 16
s_waitcnt lgkmcnt(0)
s_mul_i32 s10, s2, s8
s_add_u32 s4, s4, s10
s_addc_u32 s5, s5, 0
s_mul_i32 s10, s2, s9
s_add_u32 s6, s6, s10
s_addc_u32 s7, s7, 0
s_load_dwordx2 s[26:27], s[4:5], 0
v_and_b32_e32 v0, 0x3ff, v0
v_lshlrev_b32_e32 v0, 2, v0
v_mov_b32_e32 v1, 0
s_waitcnt lgkmcnt(0)
s_add_u32 s4, s4, {HEADER_BYTES}
s_addc_u32 s5, s5, 0
"""


def assembly(
    body: str,
    *,
    lds_bytes: int = 0,
    scratch_bytes: int = 0,
    block: int = LANES,
    vgprs: int = 64,
    flush_f32: bool = False,
) -> str:
    """A whole assembly file with one kernel named `cases` around the body; as many AGPRs as VGPRs."""
    return f"""\
.text
.globl cases
.p2align 8
.type cases,@function
cases:
{body}
s_endpgm
.size cases, .-cases
.rodata
.p2align 6
.amdhsa_kernel cases
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_kernarg_size 24
.amdhsa_next_free_vgpr {2 * vgprs}
.amdhsa_accum_offset {vgprs}
.amdhsa_next_free_sgpr 96
.amdhsa_group_segment_fixed_size {lds_bytes}
.amdhsa_private_segment_fixed_size {scratch_bytes}
.amdhsa_enable_private_segment {int(scratch_bytes > 0)}
.amdhsa_float_denorm_mode_32 {0 if flush_f32 else 3}
.amdhsa_float_denorm_mode_16_64 3
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: cases
    .symbol: cases.kd
    .args:
      - {{.address_space: global, .offset: 0, .size: 8, .value_kind: global_buffer}}
      - {{.address_space: global, .offset: 8, .size: 8, .value_kind: global_buffer}}
      - {{.offset: 16, .size: 4, .value_kind: by_value}}
      - {{.offset: 20, .size: 4, .value_kind: by_value}}
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds_bytes}
    .private_segment_fixed_size: {scratch_bytes}
    .wavefront_size: 64
    .sgpr_count: 102
    .vgpr_count: {2 * vgprs}
    .max_flat_workgroup_size: {block}
...
.end_amdgpu_metadata
"""


def tool(name: str) -> str:
    """Path of an LLVM 22 program; the tests need the distribution's packages and say so."""
    found = shutil.which(f"{name}-22") or shutil.which(f"/usr/lib/llvm-22/bin/{name}")
    assert found is not None, f"{name} of LLVM 22 is not installed (scripts/setup --test installs it)"
    return found


@cache
def clang(arch: str, source: str, suffix: str, *options: str) -> bytes:
    """The code object that clang makes of a source in the language of the suffix, assembled or compiled and linked."""
    with tempfile.TemporaryDirectory() as folder:
        text, out = Path(folder) / f"source{suffix}", Path(folder) / "linked.hsaco"
        text.write_text(source)
        target = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib"]
        command = [tool("clang"), *target, *options, "-o", str(out), str(text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out.read_bytes()


def assemble(arch: str, source: str) -> bytes:
    """Assembles and links one code object."""
    return clang(arch, source, ".s")


def accepted(arch: str, lines: Sequence[str]) -> list[bool]:
    """Which assembly lines the assembler accepts for the architecture."""
    done = subprocess.run(
        [tool("llvm-mc"), "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=null", "-"],
        input="\n".join(line.replace("\n", ";") for line in lines),
        capture_output=True,
        text=True,
        check=False,
    )
    refused = {int(line.split(":")[1]) for line in done.stderr.splitlines() if line.startswith("<stdin>:")}
    return [number not in refused for number in range(1, len(lines) + 1)]


def execute(
    arch: str, source: str, inputs: Words, out_words: int, *, engine: str, block: int = LANES, seed: int = 0
) -> Words:
    """Runs one workgroup per row of `inputs`; returns (workgroups, out_words) that start as a pattern."""
    groups, in_words = inputs.shape
    given = np.ascontiguousarray(inputs).reshape(-1).view(np.uint8).copy()
    results = np.full(groups * out_words, 0xDEADBEEF, np.uint32).view(np.uint8)
    memory = emulator.Memory()
    in_at, out_at = memory.add("inputs", given), memory.add("results", results)
    kernarg = (
        np.array([in_at, out_at], np.uint64).tobytes() + np.array([4 * in_words, 4 * out_words], np.uint32).tobytes()
    )
    report = emulator.run(
        assemble(arch, source),
        "cases",
        grid=(groups, 1, 1),
        block=(block, 1, 1),
        dynamic_lds=0,
        kernarg=kernarg,
        memory=memory,
        seed=seed,
        budget=100_000_000,
        engine=engine,
        target=arch,
    )
    assert not report.faults, report.faults
    return results.view(np.uint32).reshape(groups, out_words)


def run_lane_cases(
    arch: str,
    cases: Sequence[LaneCase],
    operands: Sequence[Words],
    masks: Sequence[int],
    *,
    engine: str,
    flush_f32: bool = False,
    lds_bytes: int = 0,
    scratch_bytes: int = 0,
) -> list[Words]:
    """Runs lane cases; `operands[i]` is (workgroups, planes_in, 64), the result (workgroups, planes_out, 64)."""
    groups = len(masks)
    header = np.zeros((groups, HEADER_BYTES // 4), np.uint32)
    header[:, :2] = np.array(masks, np.uint64)[:, None].view(np.uint32)
    inputs = np.concatenate([header, *(planes.reshape(groups, -1) for planes in operands)], axis=1)
    body = PROLOGUE + "\n".join(lane_block(case) for case in cases)
    source = assembly(body, flush_f32=flush_f32, lds_bytes=lds_bytes, scratch_bytes=scratch_bytes)
    out = execute(arch, source, inputs, LANES * sum(case.planes_out for case in cases), engine=engine)
    edges = np.cumsum([LANES * case.planes_out for case in cases])
    return [part.reshape(groups, -1, LANES) for part in np.split(out, edges[:-1], axis=1)]


def run_wave_cases(arch: str, cases: Sequence[WaveCase], operands: Sequence[Words], *, engine: str) -> list[Words]:
    """Runs wave cases; `operands[i]` is (workgroups, inputs), the result (workgroups, outputs)."""
    groups = operands[0].shape[0]
    inputs = np.concatenate([np.zeros((groups, HEADER_BYTES // 4), np.uint32), *operands], axis=1)
    source = assembly(PROLOGUE + "\n".join(wave_block(case) for case in cases))
    out = execute(arch, source, inputs, sum(case.outputs for case in cases), engine=engine)
    return np.split(out, np.cumsum([case.outputs for case in cases])[:-1], axis=1)
