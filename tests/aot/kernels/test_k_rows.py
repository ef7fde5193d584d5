"""Tiles that lie across k: who loads what, and which elements transposing reads give to a lane."""

from __future__ import annotations

from itertools import product

import pytest

from aot.ir.builder import Builder
from aot.ir.intrinsics import atom
from aot.ir.types import BF16, F32
from aot.ir.values import Value, constant
from aot.kernels.fragments import Lane
from aot.kernels.k_outer_fragments import GROUP, READ, KOuterFragments
from aot.kernels.k_rows import KRowChunks, most_rows
from grids.geometry import loads_evenly


def number(value: Value) -> int:
    assert value.const is not None
    return value.const


def maps(threads: int) -> list[KRowChunks]:
    """Every tile of the grid with every width that this many threads can share it out in."""
    found = []
    sizes = [
        (elem.bytes, width // elem.bytes) for elem in (BF16, F32) for width in (2, 4, 8, 16) if width >= elem.bytes
    ]
    for rows, cols, (elem_bytes, vec) in product((16, 32, 64), (16, 32, 64, 128, 256), sizes):
        if loads_evenly(rows=rows, cols=cols, threads=threads, vec=vec):
            found += [
                KRowChunks(rows, cols, threads, vec, elem_bytes, transposed, most)
                for transposed in (False, True)
                for most in (1, most_rows(elem_bytes))
            ]
    return found


@pytest.mark.parametrize(
    "threads", [64, 128, *(pytest.param(many, marks=pytest.mark.full) for many in (256, 512, 1024))]
)
def test_every_vector_is_loaded_once(threads: int) -> None:
    """Over all maps, the chunks of all threads are the tile, without overlap; rows of a thread are neighbours.

    Neighbouring threads load half a cache line of a row together, where rows and threads allow it.
    """
    b = Builder()
    several = 0
    for chunks in maps(threads):
        run, passes, pass_cols = chunks.run, chunks.passes, chunks.pass_cols
        starts = [tuple(map(number, chunks.position(b, constant(thread)))) for thread in range(threads)]
        seen = {
            (row + step, col + part * pass_cols) for row, col in starts for step in range(run) for part in range(passes)
        }
        assert seen == set(product(range(chunks.rows), range(0, chunks.cols, chunks.vec)))
        assert threads * run * passes == len(seen)
        together = next((thread for thread in range(threads) if starts[thread][0] != starts[0][0]), threads)
        most = min(chunks.cols // chunks.vec, chunks.most_rows * threads // chunks.rows)
        assert together * chunks.chunk_bytes >= min(64, most * chunks.chunk_bytes)
        several += run > 1
    assert several > 10


@pytest.mark.parametrize(("edge", "k"), [(16, 16), (32, 8), (16, 32), (32, 16)])
def test_transposing_reads_give_the_fragment(edge: int, k: int) -> None:
    """Lane l of the instruction gets column l mod edge, rows (l div edge) * n + j, for every fragment and k step."""
    kind, row_elems, first_col = atom(BF16, edge, k), 4 * edge + 8, edge
    b = Builder()
    width = kind.operand.lanes
    readers = [
        KOuterFragments.prepare(
            b, kind, Lane.of(b, constant(lane), edge), first_col=constant(first_col), count=2, row_elems=row_elems
        )
        for lane in range(64)
    ]
    for fragment, step, part in product(range(2), range(2), range(width // READ)):
        fixed = ((step * k + part * READ) * row_elems + fragment * edge) * BF16.bytes
        places = [divmod((number(reader.lane_bytes) + fixed) // BF16.bytes, row_elems) for reader in readers]
        for lane in range(64):
            group = places[lane // GROUP * GROUP :][:GROUP]
            member = lane % GROUP
            # Element e of a member comes from the lane that reads row e of the block, at the member's column.
            got = [
                (group[READ * element + member // READ][0], group[READ * element + member // READ][1] + member % READ)
                for element in range(READ)
            ]
            k_first = step * k + lane // edge * width + part * READ
            column = first_col + fragment * edge + lane % edge
            assert got == [(k_first + element, column) for element in range(READ)]
