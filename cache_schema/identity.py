"""What is compiled, as one frozen record.

*Configuration* fields change the code; *capability* fields bound what the binary may be launched on. No problem
extent is ever part of it, and neither is provenance (compiler, flavor, emitter): that belongs to the content key.
A zero in a capability field means "decided at run time". Integers fit a signed 32-bit word.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields

IMPLICIT_GEMM = "implicit_gemm"
#: The second stage of two-stage backward weights; never offered on its own.
REDUCE = "implicit_gemm_reduce"


@dataclass(frozen=True, slots=True)
class Identity:
    """One kernel of a catalogue. Tiles, widths and chunks are in elements; warps are waves of the workgroup."""

    # key
    arch: str
    direction: str
    algorithm: str
    dtype_a: str
    dtype_b: str
    dtype_d: str
    # configuration
    tile_m: int = 0
    tile_n: int = 0
    tile_k: int = 0
    warp_m: int = 0
    warp_n: int = 0
    warp_tile_m: int = 0
    warp_tile_n: int = 0
    warp_tile_k: int = 0
    pipeline: str = "mem"
    epilogue: str = "default"
    wave_size: int = 64
    vector_size_a: int = 0
    vector_size_b: int = 0
    vector_size_c: int = 0
    async_dma: bool = False
    unroll_k: bool = False
    chiplet_swizzle: bool = False
    lds_layout: str = "default"
    lds_k_pad: int = 0
    lds_k_outer: bool = False
    waves_per_eu: int = 0  # 0: the compiler decides
    acc_epilogue: str = "none"
    split_k: int = 1  # 1: direct store; 2: splits, the degree is a kernel argument
    two_stage: bool = False
    ws_replicas: int = 0
    stream_k: bool = False
    group_merge: int = 1
    num_load_waves: int = 0
    cshuffle_no_alias: bool = False
    prefetch_addr: bool = False
    uniform_k_decode: bool = False
    runtime_channels: bool = False
    # capability
    is_3d: bool = False
    is_pointwise: bool = False
    filter_h: int = 0
    filter_w: int = 0
    filter_d: int = 0
    stride_h: int = 0
    stride_w: int = 0
    dilation_h: int = 0
    dilation_w: int = 0
    pad_h: int = 0
    pad_w: int = 0
    cpg: int = 0
    kpg: int = 0
    grouped: bool = False
    block_h: int = 0
    max_sub_gemms: int = 0
    async_chunk_a: int = 0
    async_chunk_b: int = 0
    # direct families only: sorted-key JSON of the variant's tuning arguments
    knobs: str = ""


#: Field names in declaration order, which is the order of every column set, record and label.
FIELDS: tuple[str, ...] = tuple(field.name for field in fields(Identity))
#: Field name -> "str", "int" or "bool".
FIELD_KIND: dict[str, str] = {field.name: str(field.type) for field in fields(Identity)}
#: Defaults of the fields that have one; the six key fields in front have none.
FIELD_DEFAULT: dict[str, str | int | bool] = {
    field.name: field.default for field in fields(Identity) if field.default is not MISSING
}
