"""Small assembly programs as code objects, and one way to run them."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from aot.emulator import Memory, Report, run
from tests.aot.emulator.oracle.machine import assemble

_TEMPLATE = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl k
.p2align 8
.type k,@function
k:
{body}
.Lend:
.size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_kernarg_size 16
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_enable_private_segment {private}
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr 64
  .amdhsa_accum_offset 64
{directives}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{arch}
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 64
    .sgpr_count: 64
    .vgpr_count: {vgprs}
    .agpr_count: 0
    .max_flat_workgroup_size: 1024
    .args:
      - {{.name: a, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.name: n, .offset: 8, .size: 8, .value_kind: by_value}}
...
.end_amdgpu_metadata
"""

#: s[2:3] buffer address, s4 the number argument, s[8:11] a raw buffer of s4 bytes, v0 thread id, v1 = 4 * thread id.
PROLOGUE = """
  s_mov_b32 s12, s2
  s_load_dwordx2 s[2:3], s[0:1], 0x0
  s_load_dword s4, s[0:1], 0x8
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  s_mov_b32 s8, s2
  s_and_b32 s9, s3, 0xffff
  s_mov_b32 s10, s4
  s_mov_b32 s11, 0x27000
"""


def program(
    body: str, arch: str = "gfx950", lds: int = 1024, scratch: int = 0, vgprs: int = 64, directives: str = ""
) -> bytes:
    """Kernel `k`: the prologue, the body (instructions on lines or between semicolons) and s_endpgm. `directives` are
    further lines of the kernel descriptor."""
    text = PROLOGUE + body.replace(";", "\n") + "\n  s_endpgm\n"
    private = int(scratch > 0)
    source = _TEMPLATE.format(
        arch=arch, body=text, lds=lds, scratch=scratch, private=private, vgprs=vgprs, directives=directives
    )
    return assemble(arch, source)


def run_program(
    code: bytes,
    data: npt.NDArray[np.generic],
    *,
    number: int | None = None,
    threads: int = 64,
    groups: int = 1,
    seed: int = 0,
    engine: str = "llvm",
    budget: int = 1_000_000,
    scalar_counts: bool = True,
) -> Report:
    """Run over one buffer; `number` defaults to its bytes."""
    memory = Memory()
    address = memory.add("data", data)
    kernarg = struct.pack("<QQ", address, data.nbytes if number is None else number)
    return run(
        code,
        "k",
        grid=(groups, 1, 1),
        block=(threads, 1, 1),
        kernarg=kernarg,
        memory=memory,
        seed=seed,
        engine=engine,
        budget=budget,
        scalar_counts=scalar_counts,
    )
