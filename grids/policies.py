"""Codegen policies: options that are no axis, since one configuration has one best answer.

Each is a pure function of target and geometry, for ints and columns alike, and is recorded in the identity.
"""

from __future__ import annotations

from typing import Any

from cache_schema.problem import ELEM_BYTES
from grids.geometry import IntT
from grids.targets import Target

#: Offsets that prefetch_addr may carry in registers from one K step to the next, per thread.
MAX_CARRIED_OFFSETS = 16
#: Above this many accumulators per lane, extra loop state spills.
MAX_ACCUMULATORS_WITH_STATE = 128
#: Threads of a workgroup up to which a thread may have all registers of its lane.
FULL_REGISTERS_THREADS = 256


def k_outer_possible(target: Target, dtype: str, edge: IntT) -> Any:
    """Whether transposing LDS reads can feed matrix instructions of this edge from a tile whose rows run along it."""
    return ((edge == 16) | (edge == 32)) & (target.transpose_read and ELEM_BYTES[dtype] == 2)


def default_lds_k_outer(target: Target, dtype: str, direction: str, *, edge_m: IntT, edge_n: IntT, vec_b: IntT) -> Any:
    """K-outer LDS tiles: both in wgrad, B alone in dgrad and only for loads wider than one element, never in fwd."""
    possible = k_outer_possible(target, dtype, edge_n) & (direction != "fwd")
    if direction == "wgrad":
        return possible & k_outer_possible(target, dtype, edge_m)
    return possible & (vec_b > 1)


def default_prefetch_addr(*, accumulators: IntT, threads: IntT, chunks_a: IntT, chunks_b: IntT) -> Any:
    """Whether wgrad computes the next tile's addresses under the current loads: when the offsets fit in registers.

    A workgroup of more than 256 threads leaves each of them a share of the registers only.
    """
    shares = (threads + FULL_REGISTERS_THREADS - 1) // FULL_REGISTERS_THREADS
    return (accumulators * shares <= MAX_ACCUMULATORS_WITH_STATE) & (chunks_a + chunks_b <= MAX_CARRIED_OFFSETS)


def default_uniform_k_decode(*, accumulators: IntT) -> Any:
    """Whether dgrad has a second K loop with the filter tap as scalar state, taken if tile_k divides kpg."""
    return accumulators <= MAX_ACCUMULATORS_WITH_STATE
