"""Index maps by brute force: with known threads the builder folds an address to a number, which is then the map."""

from __future__ import annotations

import itertools

import pytest

from aot.ir.builder import Builder
from aot.ir.intrinsics import atom
from aot.ir.lds import Segment
from aot.ir.types import BF16
from aot.ir.values import Value, constant
from aot.kernels.chunks import ChunkMap
from aot.kernels.fragments import FragmentReader, Lane, result_row
from aot.kernels.swizzle import Swizzle, swizzle


def number(value: Value) -> int:
    """A folded value."""
    assert value.const is not None
    return value.const


CHUNK_MAPS = [
    ChunkMap(rows, cols, threads, vec, BF16.bytes)
    for rows, cols, threads, vec in itertools.product((16, 64, 256), (16, 64, 256), (64, 256), (1, 2, 8))
    if rows * cols % (threads * vec) == 0
]


@pytest.mark.parametrize("chunks", CHUNK_MAPS, ids=str)
def test_chunks_cover_a_tile_once(chunks: ChunkMap) -> None:
    """Every element of the tile is in exactly one chunk of one thread, and no chunk crosses a row."""
    b = Builder()
    seen: set[tuple[int, int]] = set()
    for thread, pass_number in itertools.product(range(chunks.threads), range(chunks.passes)):
        at = chunks.position(b, constant(thread), pass_number)
        row, col = number(at.row) + at.row_step, number(at.col) + at.col_step
        assert 0 <= row < chunks.rows
        assert col % chunks.vec == 0
        assert col + chunks.vec <= chunks.cols
        seen.add((row, col))
    assert len(seen) == chunks.rows * chunks.cols // chunks.vec


@pytest.mark.parametrize("chunks", [chunks for chunks in CHUNK_MAPS if chunks.shares_column], ids=str)
def test_chunks_of_a_thread_share_their_column(chunks: ChunkMap) -> None:
    """Where the map says so, a thread's chunks differ by whole rows only, at the distance that loaders assume."""
    b = Builder()
    for thread in (0, 1, chunks.threads - 1):
        at = [chunks.position(b, constant(thread), pass_number) for pass_number in range(chunks.passes)]
        assert {(number(place.row), number(place.col), place.col_step) for place in at} == {
            (number(at[0].row), number(at[0].col), 0)
        }
        assert [place.row_step for place in at] == [index * chunks.rows_per_pass for index in range(chunks.passes)]


@pytest.mark.parametrize(
    ("cols", "granule", "period"), list(itertools.product((16, 32, 64, 128, 256), (4, 8), (2, 8, 16)))
)
def test_swizzles_permute_each_row(cols: int, granule: int, period: int) -> None:
    """A swizzle permutes the granules of a row, is its own inverse, and repeats after its period."""
    b, turn = Builder(), swizzle(cols=cols, granule=granule, row_period=period, elem_bytes=2)
    assert period % turn.period == 0 or turn.mask == 0
    for row in range(2 * period):
        bits = turn.bits_of_row(b, constant(row))
        places = [number(turn.column(b, constant(col), bits)) for col in range(cols)]
        assert sorted(places) == list(range(cols))
        assert [place % granule for place in places] == [col % granule for col in range(cols)]
        assert [number(turn.column(b, constant(place), bits)) for place in places] == list(range(cols))
        assert bits == turn.bits_of_row(b, constant(row + max(turn.period, 1)))


def test_swizzle_spreads_a_column_over_banks() -> None:
    """Eight rows of a column of 16-byte granules fall into eight different bank groups of a 128-byte line."""
    b = Builder()
    for cols in (16, 32, 64):
        turn = swizzle(cols=cols, granule=8, row_period=8, elem_bytes=2)
        groups = {
            (row * cols + number(turn.column(b, constant(0), turn.bits_of_row(b, constant(row))))) * 2 % 128 // 16
            for row in range(8)
        }
        assert len(groups) == 8


@pytest.mark.parametrize(("edge", "depth"), [(16, 16), (16, 32), (32, 8), (32, 16)])
@pytest.mark.parametrize("packed", [False, True])
def test_fragments_read_what_the_instruction_wants(edge: int, depth: int, packed: bool) -> None:
    """Lane l reads row l mod edge and n consecutive elements from k = (l div edge) * n, wherever a swizzle put them."""
    b, kind, tile_k = Builder(), atom(BF16, edge, depth), 64
    width = edge * depth // 64
    turn: Swizzle | None = swizzle(cols=tile_k, granule=width, row_period=8, elem_bytes=2) if packed else None
    row_elems = tile_k if packed else tile_k + 8
    for lane in range(64):
        reader = FragmentReader.prepare(
            b,
            kind,
            Lane.of(b, constant(lane), edge),
            first_row=constant(32),
            count=2,
            row_elems=row_elems,
            tile_k=tile_k,
            swizzle=turn,
        )
        for fragment, step in itertools.product(range(2), range(tile_k // depth)):
            reader.read(b, Segment(0, 1 << 16), fragment, step)
            at = address(b)
            row = 32 + fragment * edge + lane % edge
            col = step * depth + lane // edge * width
            if turn is not None:
                col = number(turn.column(b, constant(col), turn.bits_of_row(b, constant(row))))
            assert at == (row * row_elems + col) * 2
            assert at % (2 * width) == 0


def address(b: Builder) -> int:
    """The constant byte address of the last load, through its pointer additions."""
    definitions = dict(line.split(" = ", 1) for line in b.block.lines)
    name, total = b.block.lines[-1].split("ptr addrspace(3) ")[1].split(",")[0], 0
    while name != "@lds":
        pointer, offset = definitions[name].split("ptr addrspace(3) ")[1].split(", i32 ")
        name, total = pointer, total + int(offset)
    return total


@pytest.mark.parametrize("edge", [16, 32])
def test_result_slots_cover_the_instruction_once(edge: int) -> None:
    """Slots and lanes together are every row and column of the result exactly once; runs of four slots are rows."""
    slots = edge * edge // 64
    places = {(result_row(slot) + 4 * (lane // edge), lane % edge) for lane in range(64) for slot in range(slots)}
    assert places == set(itertools.product(range(edge), range(edge)))
    assert all(result_row(slot) % 4 == slot % 4 for slot in range(slots))
