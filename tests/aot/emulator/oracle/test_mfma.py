"""Matrix instructions against a triple loop over the lane maps of the manual, for every atom that the table has."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from tests.aot.emulator.oracle import floats
from tests.aot.emulator.oracle.engines import ARCHITECTURES, ENGINES, table_names, table_targets
from tests.aot.emulator.oracle.machine import LANES, PROLOGUE, REACH, Words, advance, assembly, execute, register

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Atom:
    """Shape of one instruction: `blocks` independent products of (rows x depth) with (depth x rows)."""

    name: str
    rows: int
    depth: int
    blocks: int
    form: floats.Format

    @property
    def a_elements(self) -> int:
        """Elements of A that one lane holds; B has as many."""
        return self.rows * self.depth * self.blocks // LANES

    @property
    def a_dwords(self) -> int:
        return self.a_elements * self.form.width // 32

    @property
    def d_elements(self) -> int:
        return self.rows * self.rows * self.blocks // LANES

    def a_place(self, lane: int, element: int) -> tuple[int, int, int]:
        """(block, row, k) of element `element` of A in `lane`; for B the row is the column."""
        group, row = divmod(lane, self.rows)
        if self.blocks > 1:
            return group, row, element
        return 0, row, group * self.a_elements + element

    def d_place(self, lane: int, element: int) -> tuple[int, int, int]:
        """(block, row, column) of accumulator `element` in `lane`: four consecutive rows to a lane."""
        group, column = divmod(lane, self.rows)
        if self.rows == 4:
            return group, element, column
        per_block = self.d_elements // self.blocks
        block, inner = divmod(element, per_block)
        return block, 4 * (LANES // self.rows) * (inner // 4) + 4 * group + inner % 4, column


def atom_of(name: str) -> Atom | None:
    match = re.fullmatch(r"v_mfma_f32_(\d+)x\d+x(\d+)(?:_(\d+)b)?_(f16|bf16|f32)", name)
    if match is None:
        return None
    rows, depth, blocks, form = match.groups()
    return Atom(name, int(rows), int(depth), int(blocks or 1), floats.FORMATS[form])


ATOMS = [atom for atom in map(atom_of, sorted(table_names())) if atom is not None]
CASES = [(atom, arch) for atom in ATOMS for arch in ARCHITECTURES if arch in table_targets(atom.name)]


def run_atom(
    atom: Atom, arch: str, engine: str, a: Array, b: Array, c: Array, *, accumulators: bool = False
) -> npt.NDArray[np.float32]:
    """D of one wave per leading index; a and b are (waves, blocks, rows, depth), c and d (waves, blocks, rows, rows).

    `accumulators` places every operand in AGPRs.
    """
    waves, words = a.shape[0], atom.a_dwords
    planes = np.zeros((waves, 2 * words + atom.d_elements, LANES), np.uint32)
    for lane in range(LANES):
        for source, matrix in ((0, a), (1, b)):
            for element in range(atom.a_elements):
                block, row, k = atom.a_place(lane, element)
                word, low = divmod(element * atom.form.width, 32)
                for wave in range(waves):
                    bits = floats.encode(atom.form, float(matrix[wave, block, row, k]))
                    planes[wave, source * words + word, lane] |= np.uint32(bits << low)
        for element in range(atom.d_elements):
            block, row, column = atom.d_place(lane, element)
            planes[:, 2 * words + element, lane] = c[:, block, row, column].astype(np.float32).view(np.uint32)
    body = [PROLOGUE]
    firsts = (4, 12, 32)
    counts = (words, words, atom.d_elements)
    plane = 0
    for first, count in zip(firsts, counts, strict=True):
        for i in range(count):
            if plane and plane % 15 == 0:
                body += ["s_add_u32 s4, s4, 3840", "s_addc_u32 s5, s5, 0"]
            body.append(f"global_load_dword v{first + i}, v0, s[4:5] offset:{256 * (plane % 15)}")
            plane += 1
    body.append("s_waitcnt vmcnt(0)")
    kind = "a" if accumulators else "v"
    if accumulators:
        body += [
            f"v_accvgpr_write_b32 a{f + i}, v{f + i}" for f, n in zip(firsts, counts, strict=True) for i in range(n)
        ]
    registers = [register(first, count, kind) for first, count in zip(firsts, counts, strict=True)]
    body += ["s_nop 7", f"{atom.name} {registers[2]}, {registers[0]}, {registers[1]}, {registers[2]}", *["s_nop 7"] * 3]
    for i in range(atom.d_elements):
        if accumulators:
            body.append(f"v_accvgpr_read_b32 v{32 + i}, a{32 + i}")
        if i and i % 15 == 0:
            body += ["s_add_u32 s6, s6, 3840", "s_addc_u32 s7, s7, 0"]
        body.append(f"global_store_dword v0, v{32 + i}, s[6:7] offset:{256 * (i % 15)}")
    inputs = np.concatenate([np.zeros((waves, 16), np.uint32), planes.reshape(waves, -1)], axis=1)
    out = execute(arch, assembly("\n".join(body)), inputs, LANES * atom.d_elements, engine=engine)
    got = out.reshape(waves, atom.d_elements, LANES).view(np.float32)
    d = np.zeros(c.shape, np.float32)
    for lane in range(LANES):
        for element in range(atom.d_elements):
            block, row, column = atom.d_place(lane, element)
            d[:, block, row, column] = got[:, element, lane]
    return d


def product(a: Array, b: Array, c: Array) -> Array:
    return np.asarray(np.einsum("wbik,wbjk->wbij", a, b) + c)


def test_the_table_has_matrix_instructions() -> None:
    """The atoms of both dtypes are there, so that the tests below run over something."""
    names = {atom.name for atom in ATOMS}
    assert {"v_mfma_f32_32x32x8_f16", "v_mfma_f32_16x16x16_bf16", "v_mfma_f32_32x32x2_f32"} <= names
    assert {"v_mfma_f32_32x32x16_bf16", "v_mfma_f32_16x16x32_f16"} <= names


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("atom", "arch"), CASES, ids=lambda value: getattr(value, "name", value))
def test_small_integers_are_exact(atom: Atom, arch: str, engine: str) -> None:
    """With distinct small integers each output names its row and column: a wrong lane map cannot hide."""
    rng = np.random.default_rng(11)
    shape = (2, atom.blocks, atom.rows, atom.depth)
    a = rng.integers(-8, 9, shape).astype(np.float64)
    b = rng.integers(-8, 9, shape).astype(np.float64)
    c = rng.integers(-1000, 1001, (*shape[:3], atom.rows)).astype(np.float64)
    for accumulators in (False, True):
        got = run_atom(atom, arch, engine, a, b, c, accumulators=accumulators)
        assert np.array_equal(got, product(a, b, c))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("atom", "arch"), CASES, ids=lambda value: getattr(value, "name", value))
def test_random_numbers_stay_in_the_bound(atom: Atom, arch: str, engine: str) -> None:
    """f32 sums in any order: |error| <= (depth + 1) * 2^-23 * sum |a b|; a NaN and an infinity stay in their row."""
    rng = np.random.default_rng(12)
    shape = (1, atom.blocks, atom.rows, atom.depth)
    round_trip = np.vectorize(lambda x: floats.decode(atom.form, floats.encode(atom.form, float(x))))
    a, b = (round_trip(rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)) for _ in range(2))
    c = rng.standard_normal((*shape[:3], atom.rows)).astype(np.float32).astype(np.float64)
    a[0, 0, 1, 0] = np.nan
    a[0, 0, 2, 0] = np.inf
    got = run_atom(atom, arch, engine, a, b, c)
    want, size = product(a, b, c), product(abs(a), abs(b), abs(c))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got[np.isinf(want)], want[np.isinf(want)])
    finite = np.isfinite(want)
    assert (abs(got[finite] - want[finite]) <= (atom.depth + 1) * 2.0**-23 * size[finite]).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("atom", [atom for atom in ATOMS if atom.form is floats.F16 and atom.blocks == 1], ids=str)
def test_f16_denormals_are_kept(atom: Atom, engine: str) -> None:
    """The smallest f16 denormal times a power of two arrives in the f32 result."""
    shape = (1, 1, atom.rows, atom.depth)
    a, b = np.zeros(shape), np.zeros(shape)
    a[0, 0, :, 0] = 2.0**-24
    b[0, 0, :, 0] = 2.0**10
    arch = "gfx950" if "gfx942" not in table_targets(atom.name) else "gfx942"
    got = run_atom(atom, arch, engine, a, b, np.zeros((1, 1, atom.rows, atom.rows)))
    assert (got == 2.0**-14).all()


def wide_product(arch: str, engine: str, name: str, sizes: tuple[int, int, int], inputs: Words) -> Words:
    """Runs one matrix instruction on raw register planes: dwords of A, of B and of C in, dwords of D out."""
    waves = inputs.shape[0]
    body = [PROLOGUE]
    registers = []
    plane = 0
    for first, count in zip((4, 12, 32), sizes, strict=True):
        registers.append(register(first, count))
        for i in range(count):
            if plane and plane % REACH == 0:
                body += advance(4, 256 * REACH)
            body.append(f"global_load_dword v{first + i}, v0, s[4:5] offset:{256 * (plane % REACH)}")
            plane += 1
    body += ["s_waitcnt vmcnt(0)", f"{name} {registers[2]}, {registers[0]}, {registers[1]}, {registers[2]}"]
    body += ["s_nop 15"] * 2
    for i in range(sizes[2]):
        if i and i % REACH == 0:
            body += advance(6, 256 * REACH)
        body.append(f"global_store_dword v0, v{32 + i}, s[6:7] offset:{256 * (i % REACH)}")
    given = np.concatenate([np.zeros((waves, 16), np.uint32), inputs.reshape(waves, -1)], axis=1)
    out = execute(arch, assembly("\n".join(body)), given, LANES * sizes[2], engine=engine)
    return out.reshape(waves, sizes[2], LANES)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [name for name in sorted(table_names()) if name.startswith("v_mfma_i32")])
def test_eight_bit_integers(name: str, engine: str) -> None:
    """Signed bytes into 32-bit sums, exact, in the lane maps of the other atoms."""
    rows, depth = (int(edge) for edge in re.findall(r"(\d+)x\d+x(\d+)", name)[0])
    groups, per_lane = LANES // rows, rows * depth // LANES
    rng = np.random.default_rng(13)
    a, b = (rng.integers(-128, 128, (rows, depth)) for _ in range(2))
    c = rng.integers(-(1 << 20), 1 << 20, (rows, rows))
    words = per_lane // 4
    planes = np.zeros((1, 2 * words + rows * rows // LANES, LANES), np.uint32)
    lanes = np.arange(LANES)
    for source, matrix in ((0, a), (1, b)):
        parts = matrix.reshape(rows, groups, per_lane)[lanes % rows, lanes // rows].astype(np.int8)
        planes[0, source * words : (source + 1) * words] = parts.view(np.uint32).T
    places = Atom(name, rows, depth, 1, floats.F32)
    for element in range(rows * rows // LANES):
        where = [places.d_place(lane, element)[1:] for lane in range(LANES)]
        planes[0, 2 * words + element] = [int(c[place]) & 0xFFFFFFFF for place in where]
    arch = "gfx942" if "gfx942" in table_targets(name) else "gfx950"
    got = wide_product(arch, engine, name, (words, words, rows * rows // LANES), planes)[0].view(np.int32)
    want = a @ b.T + c
    for element in range(rows * rows // LANES):
        assert got[element].tolist() == [int(want[places.d_place(lane, element)[1:]]) for lane in range(LANES)]


@pytest.mark.parametrize("engine", ENGINES)
def test_double_precision(engine: str) -> None:
    """16x16x4 in f64: accumulator i of lane l is row 4 i + l div 16, unlike the f32 atoms."""
    rng = np.random.default_rng(14)
    a, b = rng.integers(-9, 10, (16, 4)).astype(np.float64), rng.integers(-9, 10, (16, 4)).astype(np.float64)
    c = rng.integers(-99, 100, (16, 16)).astype(np.float64)
    lanes = np.arange(LANES)
    planes = np.zeros((1, 12, LANES), np.uint32)
    for source, matrix in ((0, a), (2, b)):
        planes[0, source : source + 2] = matrix[lanes % 16, lanes // 16].view(np.uint32).reshape(LANES, 2).T
    for i in range(4):
        column = np.ascontiguousarray(c[4 * i + lanes // 16, lanes % 16])
        planes[0, 4 + 2 * i : 6 + 2 * i] = column.view(np.uint32).reshape(LANES, 2).T
    for arch in ARCHITECTURES:
        got = wide_product(arch, engine, "v_mfma_f64_16x16x4_f64", (2, 2, 8), planes)[0]
        want = a @ b.T + c
        for i in range(4):
            column = np.ascontiguousarray(got[2 * i : 2 * i + 2].T).view(np.float64)[:, 0]
            assert np.array_equal(column, want[4 * i + lanes // 16, lanes % 16])
