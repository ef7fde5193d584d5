"""Shuffled results by brute force: with known threads every LDS address folds to a number."""

from __future__ import annotations

import pytest

from aot.ir.builder import Builder
from aot.ir.intrinsics import atom
from aot.ir.lds import Segment
from aot.ir.types import BF16, F32, Type
from aot.ir.values import Value, constant
from aot.kernels.fragments import RUN, Lane, result_row
from aot.kernels.place import Place
from aot.kernels.results import Results, Shuffle
from aot.kernels.tile import Tile
from tests.aot.kernels.test_maps import number

START = 512


def results_of(tile: Tile, thread: int) -> Results:
    """The accumulators of one thread, its place in numbers."""
    wave, lane, b = thread // 64, thread % 64, Builder()
    zero = constant(0)
    place = Place(
        thread=constant(thread),
        wave=constant(wave),
        lane=Lane.of(b, constant(lane), tile.atom.edge),
        wave_m=constant(wave // tile.warp_n * (tile.m // tile.warp_m)),
        wave_n=constant(wave % tile.warp_n * (tile.n // tile.warp_n)),
        first_m=zero,
        first_n=zero,
        group=zero,
    )
    accumulator = Value(tile.atom.accumulator, "%accumulator")
    return Results(tile, [accumulator] * (tile.fragments_m * tile.fragments_n), place)


def addresses(b: Builder, instruction: str) -> list[int]:
    """The constant byte addresses of all stores or loads, through their pointer additions."""
    definitions = dict(line.split(" = ", 1) for line in b.block.lines if " = " in line)
    found = []
    for line in b.block.lines:
        if instruction in line:
            name, total = line.rsplit("ptr addrspace(3) ", 1)[1].split(",")[0], 0
            while name != "@lds":
                name, offset = definitions[name].split("ptr addrspace(3) ")[1].split(", i32 ")
                total += int(offset)
            found.append(total)
    return found


@pytest.mark.parametrize("edge", [16, 32])
@pytest.mark.parametrize(("out", "vec"), [(BF16, 1), (BF16, 2), (BF16, 8), (F32, 1), (F32, 4)], ids=str)
@pytest.mark.parametrize(("m", "n", "warp_m", "warp_n"), [(64, 64, 2, 2), (32, 128, 1, 4), (128, 32, 2, 1)])
def test_a_chunk_finds_what_lanes_wrote(
    edge: int, out: Type, vec: int, m: int, n: int, warp_m: int, warp_n: int
) -> None:
    """Every result is written once, and each chunk reads its row and columns from where they were written."""
    tile = Tile(m, n, 32, warp_m, warp_n, 64 * warp_m * warp_n, atom(BF16, edge, 256 // edge), BF16, out)
    size = out.bytes
    shuffle = Shuffle(vec, Segment(START, m * n * size), overlays=False)
    written: dict[tuple[int, int], int] = {}
    for thread in range(tile.threads):
        b, results = Builder(), results_of(tile, thread)
        shuffle.write(b, results)
        places = iter(addresses(b, "store "))
        lane = thread % 64
        row, col = number(results.place.wave_m) + lane % edge, number(results.place.wave_n) + lane // edge * RUN
        for fragment in range(tile.fragments_m * tile.fragments_n):
            at_m, at_n = divmod(fragment, tile.fragments_n)
            for slot in range(0, tile.atom.accumulator.lanes, RUN):
                start = next(places)
                for part in range(RUN):
                    at = row + at_m * edge, col + at_n * edge + result_row(slot) + part
                    assert written.setdefault(at, start + part * size) == start + part * size
        assert next(places, None) is None
    assert set(written) == {(row, col) for row in range(m) for col in range(n)}
    assert sorted(written.values()) == list(range(START, START + m * n * size, size))
    read = []
    for thread in range(tile.threads):
        b = Builder()
        chunks = list(shuffle.chunks(b, results_of(tile, thread)))
        for chunk, address in zip(chunks, addresses(b, "load "), strict=True):
            row, col = number(chunk.row), number(chunk.col)
            assert number(chunk.lane_row) + chunk.fixed_row == row
            columns = range(col, col + vec)
            assert [written[row, column] for column in columns] == [address + i * size for i in range(vec)]
            read += [(row, column) for column in columns]
    assert sorted(read) == sorted(written)
