"""Encodings and dialects: what the AMDGPU side of the builder writes."""

from __future__ import annotations

import pytest

from aot.ir import intrinsics
from aot.ir.barriers import wait_immediate
from aot.ir.builder import Builder
from aot.ir.flavor import FLAVORS, flavor
from aot.ir.lds import LdsPool
from aot.ir.types import BF16, ELEMENTS, F16, GLOBAL_PTR, I16, I32
from aot.ir.values import Value
from cache_schema.errors import UnknownValueError


@pytest.mark.parametrize(
    ("counts", "immediate"),
    [
        ({"vmcnt": 0, "lgkmcnt": 0}, 0x0070),
        ({"lgkmcnt": 0}, 0xC07F),
        ({"vmcnt": 0}, 0x0F70),
        ({"vmcnt": 16}, 0x4F70),
        ({"vmcnt": 1000, "lgkmcnt": 99}, 0xCF7F),
        ({}, 0xCF7F),
    ],
)
def test_wait_counts(counts: dict[str, int], immediate: int) -> None:
    """Immediates are those of the instruction manual; counts beyond a field mean no wait and never wrap to a drain."""
    assert wait_immediate(**counts) == immediate


@pytest.mark.parametrize("name", FLAVORS)
def test_resources_are_spelled_per_flavor(name: str) -> None:
    """Older LLVM takes 32-bit sizes and mangles the pointer only, newer 64-bit and both."""
    b = Builder()
    intrinsics.buffer_resource(b, flavor(name), Value(GLOBAL_PTR, "%p"), Value(I32, "%n"))
    text = "\n".join([*b.declarations.values(), *b.block.lines])
    assert ("make.buffer.rsrc.p1(" in text) == (name == "llvm20")
    assert ("make.buffer.rsrc.p8.p1(ptr addrspace(1), i16, i64, i32)" in text) == (name == "llvm22")
    assert ("zext i32 %n to i64" in text) == (name == "llvm22")


def test_unknown_flavor() -> None:
    """A flavor that nobody knows is named together with those that are known."""
    with pytest.raises(UnknownValueError, match="llvm22"):
        flavor("llvm7")


def test_matrix_instructions() -> None:
    """Short bf16 atoms take i16 in the .1k form; long ones take their own type; accumulators follow from the edge."""
    assert intrinsics.atom(BF16, 16, 16).name == "mfma.f32.16x16x16bf16.1k"
    assert intrinsics.atom(BF16, 32, 8).operand.text == f"<4 x {I16}>"
    assert intrinsics.atom(BF16, 32, 16).operand.text == "<8 x bfloat>"
    assert intrinsics.atom(F16, 16, 16).name == "mfma.f32.16x16x16f16"
    assert intrinsics.atom(F16, 16, 32).name == "mfma.f32.16x16x32.f16"
    for dtype in (ELEMENTS["fp16"], ELEMENTS["bf16"]):
        assert [intrinsics.atom(dtype, edge, 16).accumulator.lanes for edge in (16, 32)] == [4, 16]


def test_segments_lie_inside_the_pool() -> None:
    """A segment that would stick out of the array is refused."""
    pool = LdsPool(1024)
    assert pool.segment(512, 512).start == 512
    with pytest.raises(AssertionError):
        pool.segment(768, 512)


def test_disjoint_segments_name_each_other() -> None:
    """Each of several disjoint segments has its own alias scope and excludes those of all others."""
    b = Builder()
    pool = LdsPool(64)
    tagged = pool.disjoint(b, [pool.segment(16 * index, 16) for index in range(3)])
    nodes = {f"!{index}": text for index, text in enumerate(b.metadata)}
    for segment in tagged:
        own, others = (tag.split()[1] for tag in segment.tags.split(", "))
        assert nodes[own][2:-1] not in nodes[others]
        assert nodes[others].count("!") == 3
