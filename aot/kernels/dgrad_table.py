"""The sub-GEMM table of a backward-data launch: what the tilde kernel reads to find its work, as int32 words.

    table  = record * n, magic * n          n sub-GEMMs; record s starts at word 22 s, its magic at 22 n + 8 s
    record = the fields of `RECORD_FIELDS` in order
    magic  = (mult, shift) of kpg, x_dot_slice, w_tilde_slice, h_tilde_slice

A k = (ydot, xdot, k_out) is taken apart by kpg and x_dot_slice, an m = (n, h, w) by w_tilde_slice and h_tilde_slice: a
kernel divides by nothing else, since the number of N tiles, the same for all records, is a kernel argument with its
own pair. With a single record the magic words are 22 to 29, where the stride-1 kernel reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

from aot.kernels.magic import magic_pair
from cache_schema.problem import ConvProblem
from grids.addressing import canonical
from grids.gemm.records import Dgrad
from grids.geometry import ceil_div
from grids.tilde import SubGemm, sub_gemms

RECORD_FIELDS = (
    "block_start", "num_m_tiles", "num_n_tiles", "gemm_m", "gemm_k",
    "h_tilde_slice", "w_tilde_slice", "h_tilde_slice_begin", "w_tilde_slice_begin", "y_dot_slice", "x_dot_slice",
    "a_embed_h_coeff", "a_embed_w_coeff", "b_y_stride", "b_y_offset", "b_x_stride", "b_x_offset",
    "d_h_stride", "d_h_offset", "d_w_stride", "d_w_offset", "gemm_k_padded",
)  # fmt: skip
#: Fields whose magic pairs follow the records, in order; kpg is no field but the same for all.
DIVISOR_FIELDS = ("x_dot_slice", "w_tilde_slice", "h_tilde_slice")
RECORD_WORDS = len(RECORD_FIELDS)
MAGIC_WORDS = 2 * (1 + len(DIVISOR_FIELDS))

Record = Mapping[str, int]


def records(problem: ConvProblem, *, tile_m: int, tile_n: int, tile_k: int) -> list[Record]:
    """The records of a problem in launch order. The padded reduction is a whole number of K tiles."""
    found: list[Record] = []
    start = 0
    for part in sub_gemms(canonical(problem)):
        found.append(_record(part, start, tile_m, tile_n, tile_k))
        start += part.tiles(tile_m, tile_n)
    return found


def records_of(identity: Dgrad, problem: ConvProblem) -> list[Record]:
    """The records for one kernel."""
    return records(problem, tile_m=identity.tile_m, tile_n=identity.tile_n, tile_k=identity.tile_k)


def total_tiles(found: list[Record]) -> int:
    """Workgroups of one group."""
    return found[-1]["block_start"] + found[-1]["num_m_tiles"] * found[-1]["num_n_tiles"]


def table_words(found: list[Record], kpg: int) -> tuple[int, ...]:
    """The table as signed words."""
    words = [record[field] for record in found for field in RECORD_FIELDS]
    for record in found:
        for divisor in (kpg, *(record[field] for field in DIVISOR_FIELDS)):
            words += magic_pair(divisor)
    return tuple((word + 2**31) % 2**32 - 2**31 for word in words)


def _record(part: SubGemm, start: int, tile_m: int, tile_n: int, tile_k: int) -> Record:
    h, w = part.h, part.w
    values = (
        start, ceil_div(part.gemm_m, tile_m), ceil_div(part.gemm_n, tile_n), part.gemm_m, part.gemm_k,
        h.size, w.size, h.begin, w.begin, h.taps, w.taps,
        h.dy_step, w.dy_step, h.step, h.offset, w.step, w.offset,
        h.stride, h.origin, w.stride, w.origin, ceil_div(part.gemm_k, tile_k) * tile_k,
    )  # fmt: skip
    return dict(zip(RECORD_FIELDS, values, strict=True))
