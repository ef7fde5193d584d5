"""Kernels that clang compiles from C, against numpy: launch set-up, preloaded arguments, scratch, division, doubles."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from aot.emulator import Memory, run
from tests.aot.emulator.oracle.machine import clang

ENGINES = ("llvm", "numpy")
ARCHITECTURES = ("gfx942", "gfx950")
GLOBAL = "__attribute__((address_space(1)))"

IDS = f"""
__attribute__((amdgpu_kernel)) void k({GLOBAL} unsigned *out, int n) {{
  unsigned x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
  unsigned z = __builtin_amdgcn_workitem_id_z(), group = __builtin_amdgcn_workgroup_id_z();
  group = (group * 2 + __builtin_amdgcn_workgroup_id_y()) * 5 + __builtin_amdgcn_workgroup_id_x();
  out[group * 120 + (z * 5 + y) * 6 + x] = x + 10 * y + 100 * z + 1000 * group + n;
}}
"""

SCRATCH = f"""
__attribute__((amdgpu_kernel)) void k({GLOBAL} unsigned *data, int n) {{
  unsigned i = __builtin_amdgcn_workgroup_id_x() * 128 + __builtin_amdgcn_workitem_id_x();
  volatile unsigned a[16];
  for (int j = 0; j < 16; j++) a[j] = data[i] * (j + n);
  unsigned s = 0;
  for (int j = 0; j < 16; j++) s = s * 31 + a[(j * 7 + i) & 15];
  data[i] = s;
}}
"""

DIVISION = f"""
__attribute__((amdgpu_kernel)) void k({GLOBAL} float *data, int n) {{
  unsigned i = __builtin_amdgcn_workitem_id_x();
  float a = data[i], b = data[i + 64];
  {GLOBAL} int *bits = ({GLOBAL} int *)data;
  {GLOBAL} double *wide = ({GLOBAL} double *)data;
  data[128 + i] = a / b;
  bits[192 + i] = bits[i] / (n + (int)i);
  bits[256 + i] = (unsigned)bits[i] % (unsigned)(n + i);
  wide[160 + i] = (double)a / (double)b + 1.0;
  data[448 + i] = __builtin_sqrtf(a * a);
}}
"""


def compiled(arch: str, source: str, *options: str) -> bytes:
    """The code object of a C kernel."""
    return clang(arch, source, ".c", "-O2", *options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("preload", [0, 2])
def test_identifiers_of_a_three_dimensional_launch(arch: str, engine: str, preload: int) -> None:
    """Work-item ids unpack from v0, workgroup ids follow the user SGPRs, arguments preloaded or not are the same."""
    options = ("-mllvm", f"-amdgpu-kernarg-preload-count={preload}") if preload else ()
    out = np.zeros(5 * 2 * 3 * 120, np.uint32)
    memory = Memory()
    kernarg = struct.pack("<QI", memory.add("out", out), 7)
    code = compiled(arch, IDS, *options)
    run(code, "k", grid=(5, 2, 3), block=(6, 5, 4), kernarg=kernarg, memory=memory, engine=engine).check()
    group, z, y, x = np.meshgrid(np.arange(30), np.arange(4), np.arange(5), np.arange(6), indexing="ij")
    assert np.array_equal(out, (x + 10 * y + 100 * z + 1000 * group + 7).ravel())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_private_arrays_live_in_scratch(arch: str, engine: str) -> None:
    """Every lane of every wave has scratch of its own."""
    data = np.random.default_rng(3).integers(0, 1 << 32, 256).astype(np.uint32)
    before = data.copy()
    memory = Memory()
    kernarg = struct.pack("<QI", memory.add("data", data), 3)
    run(
        compiled(arch, SCRATCH), "k", grid=(2, 1, 1), block=(128, 1, 1), kernarg=kernarg, memory=memory, engine=engine
    ).check()
    want = np.zeros(256, np.uint32)
    for j in range(16):
        number = (j * 7 + np.arange(256, dtype=np.uint32)) & np.uint32(15)
        want = want * np.uint32(31) + before * (number + np.uint32(3))
    assert np.array_equal(data, want)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_division_is_exact(arch: str, engine: str) -> None:
    """The compiler's sequences of div_scale, div_fmas, div_fixup and reciprocals give IEEE and integer quotients."""
    rng = np.random.default_rng(4)
    data = np.zeros(512, np.float32)
    data[:128] = (rng.standard_normal(128) * 2.0 ** rng.integers(-60, 60, 128)).astype(np.float32)
    data[:8] = [0.0, -0.0, np.inf, 1.0, 2.0**-140, -(2.0**-130), 2.0**127, 1.0]
    data[64:72] = [1.0, 3.0, 2.0, np.inf, 2.0**-20, 2.0**10, 2.0**-3, 2.0**-149]
    a, b = data[:64].copy(), data[64:128].copy()
    memory = Memory()
    kernarg = struct.pack("<QI", memory.add("data", data), 5)
    run(
        compiled(arch, DIVISION), "k", grid=(1, 1, 1), block=(64, 1, 1), kernarg=kernarg, memory=memory, engine=engine
    ).check()
    with np.errstate(all="ignore"):
        assert np.array_equal(data[128:192], a / b)
        assert np.array_equal(data[320:448].view(np.float64), a.astype(np.float64) / b.astype(np.float64) + 1.0)
        assert np.array_equal(data[448:512], np.sqrt(a * a))
    bits, divisor = a.view(np.int32).astype(np.int64), np.arange(64) + 5
    assert np.array_equal(data[192:256].view(np.int32), np.trunc(bits / divisor).astype(np.int32))
    assert np.array_equal(data[256:320].view(np.uint32), a.view(np.uint32) % divisor.astype(np.uint32))
