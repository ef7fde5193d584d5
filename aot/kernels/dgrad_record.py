"""The sub-GEMM of a workgroup, on the device: found in the table, or folded from kernel arguments at stride 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.flavor import Flavor
from aot.ir.intrinsics import OUT_OF_BOUNDS, buffer_load, buffer_resource, workgroup_id
from aot.ir.types import I32, I64, Type, vector
from aot.ir.values import Value, constant
from aot.kernels.dgrad_arguments import N_TILES
from aot.kernels.dgrad_table import DIVISOR_FIELDS, MAGIC_WORDS, RECORD_FIELDS, RECORD_WORDS
from aot.kernels.magic import Divisor
from grids.gemm.records import MAX_SUB_GEMMS

Args = Mapping[str, Value]

WORD_BYTES = 4
#: The last field, the reduction in whole K tiles, is what the others make of it.
_READ_FIELDS = RECORD_FIELDS[:-1]


@dataclass(frozen=True, slots=True)
class SubGemmRecord:
    """One record as scalars, by field name, and its divisors."""

    fields: Mapping[str, Value]
    by_kpg: Divisor
    by_x_dot: Divisor
    by_w_slice: Divisor
    by_h_slice: Divisor

    def __getitem__(self, field: str) -> Value:
        return self.fields[field]


def found_record(b: Builder, flavor: Flavor, args: Args, lane: Value) -> SubGemmRecord:
    """The record of this workgroup, by its number along x. `lane` is the thread's number in its wave."""
    number = _search(b, flavor, args, lane)
    at = b.offset_pointer(args["sub_gemm_buf"], b.mul(number, RECORD_WORDS * WORD_BYTES, "nuw nsw"))
    fields = dict(zip(_READ_FIELDS, _load_words(b, at, len(_READ_FIELDS)), strict=True))
    behind = b.mul(args["num_sub_gemms"], RECORD_WORDS * WORD_BYTES, "nuw nsw")
    start = b.add(behind, b.mul(number, MAGIC_WORDS * WORD_BYTES, "nuw nsw"), "nuw nsw")
    return _with_divisors(args, fields, _load_words(b, b.offset_pointer(args["sub_gemm_buf"], start), MAGIC_WORDS))


def folded_record(b: Builder, args: Args) -> SubGemmRecord:
    """The single record of a problem of stride 1, from arguments; of the table only the magic words are read."""
    fields = {field: constant(0) for field in _READ_FIELDS} | {
        "num_n_tiles": args["p_num_pid_n"],
        "gemm_m": args["p_dg_M"],
        "gemm_k": args["p_dg_K"],
        "h_tilde_slice": args["p_Hi"],
        "w_tilde_slice": args["p_Wi"],
        "h_tilde_slice_begin": args["p_pH"],
        "w_tilde_slice_begin": args["p_pW"],
        "y_dot_slice": args["p_Y"],
        "x_dot_slice": args["p_X"],
        "a_embed_h_coeff": b.sub(0, args["p_dH"]),
        "a_embed_w_coeff": b.sub(0, args["p_dW"]),
        "b_y_stride": constant(1),
        "b_x_stride": constant(1),
        "d_h_stride": constant(1),
        "d_w_stride": constant(1),
    }
    magic = b.offset_pointer(args["sub_gemm_buf"], RECORD_WORDS * WORD_BYTES)
    return _with_divisors(args, fields, _load_words(b, magic, MAGIC_WORDS))


def tile_of_record(b: Builder, args: Args, record: SubGemmRecord) -> tuple[Value, Value]:
    """Tile numbers (m, n) of this workgroup inside its record; n runs fastest."""
    local = b.sub(workgroup_id(b, "x"), record["block_start"])
    return N_TILES.of(args).divmod(b, local)


def _search(b: Builder, flavor: Flavor, args: Args, lane: Value) -> Value:
    """Number of the last record that starts at or before this workgroup.

    Every lane looks at one record; the first ones of a wave answer yes, and their count is the answer.
    """
    assert MAX_SUB_GEMMS == 64  # lanes of a wave
    count = args["num_sub_gemms"]
    table_bytes = b.mul(count, RECORD_WORDS * WORD_BYTES, "nuw nsw")
    table = buffer_resource(b, flavor, args["sub_gemm_buf"], table_bytes)
    is_record = b.icmp("ult", lane, count)
    place = b.select(is_record, b.mul(lane, RECORD_WORDS * WORD_BYTES), OUT_OF_BOUNDS)
    start = buffer_load(b, I32, table, place, constant(0))
    begun = b.both(is_record, b.icmp("ule", start, workgroup_id(b, "x")))
    b.declare("llvm.amdgcn.ballot.i64", I64, "i1")
    b.declare("llvm.ctpop.i64", I64, "i64")
    answers = b.effect(I64, f"call i64 @llvm.amdgcn.ballot.i64({begun})")
    return b.sub(b.trunc(b.pure(I64, f"call i64 @llvm.ctpop.i64({answers})"), I32), 1)


def _load_words(b: Builder, start: Value, count: int) -> list[Value]:
    """Scalar loads of consecutive words, in powers of two as wide as the machine has them."""
    tags = f"!invariant.load {b.metadata_node('!{ }')}"  # an empty node
    words: list[Value] = []
    while len(words) < count:
        width = min(16, 1 << (count - len(words)).bit_length() - 1)
        kind: Type = vector(width, I32)
        loaded = b.load(kind, b.offset_pointer(start, len(words) * WORD_BYTES), WORD_BYTES, tags)
        words += [b.extract(loaded, lane) for lane in range(width)]
    return words


def _with_divisors(args: Args, fields: Mapping[str, Value], magic: list[Value]) -> SubGemmRecord:
    values = (args["p_kpg"], *(fields[field] for field in DIVISOR_FIELDS))
    divisors = [Divisor(value, magic[2 * i], magic[2 * i + 1]) for i, value in enumerate(values)]
    return SubGemmRecord(fields, *divisors)
