"""Blocks and loops of hand-written control flow whose answer can be read off the text."""

from __future__ import annotations

from aot.inspection.control_flow import basic_blocks, branch_target, natural_loops, reachable
from tests.aot.inspection.listing import Line, assemble

NEST = """
    s_mov_b32 s0, 0
outer:
    s_mov_b32 s1, 0
inner:
    s_add_i32 s1, s1, 1
    s_cbranch_vccz skip
    v_mov_b32_e32 v0, v1
skip:
    s_cmp_lt_i32 s1, s2
    s_cbranch_scc1 inner
    s_add_i32 s0, s0, 1
    s_cbranch_scc1 outer
    s_endpgm
    s_nop 0
    s_nop 0
"""


def test_blocks_end_at_branches_and_begin_at_targets() -> None:
    """The nest has seven blocks of which the padding cannot be reached."""
    lines = assemble(NEST)
    blocks = basic_blocks(lines)
    assert [block.last - block.first for block in blocks] == [1, 1, 2, 1, 2, 2, 1, 2]
    assert [block.successors for block in blocks] == [(1,), (2,), (4, 3), (4,), (2, 5), (1, 6), (), ()]
    assert reachable(blocks) == set(range(7))


def test_nested_loops_own_their_blocks() -> None:
    """The inner loop holds its three blocks, the outer loop owns what is left of it."""
    loops = natural_loops(basic_blocks(assemble(NEST)))
    assert [(loop.header, loop.depth, loop.own_blocks) for loop in loops] == [(1, 0, (1, 5)), (2, 1, (2, 3, 4))]
    assert loops[1].blocks < loops[0].blocks


def test_two_latches_of_one_header_make_one_loop() -> None:
    """A continue statement is not a second loop."""
    text = """
    head:
        s_cbranch_scc0 head
        s_cbranch_vccnz head
        s_endpgm
    """
    loops = natural_loops(basic_blocks(assemble(text)))
    assert [loop.blocks for loop in loops] == [frozenset({0, 1})]


def test_a_backward_jump_into_the_middle_is_no_loop_of_its_target() -> None:
    """A back edge counts only when its target is passed on every way in."""
    text = """
        s_cbranch_scc0 second
    first:
        s_nop 0
    second:
        s_cbranch_scc1 first
        s_endpgm
    """
    assert natural_loops(basic_blocks(assemble(text))) == []


def test_branch_targets_are_relative_and_signed() -> None:
    """Positive, negative and hexadecimal offsets; a trailing symbol does not disturb."""
    assert branch_target(Line(0x100, 4, "s_branch", "56")) == 0x104 + 4 * 56
    assert branch_target(Line(0x100, 4, "s_cbranch_scc1", "65535")) == 0x100
    assert branch_target(Line(0x100, 4, "s_cbranch_execz", "-2")) == 0x104 - 8
    assert branch_target(Line(0x100, 4, "s_cbranch_execz", "0xfffe <f+0x1>")) == 0x104 - 8
    assert branch_target(Line(0x100, 4, "s_setpc_b64", "s[2:3]")) is None
    assert branch_target(Line(0x100, 4, "s_mov_b32", "s0, 4")) is None


def test_nothing_is_nothing() -> None:
    """An empty listing has no blocks and no loops."""
    assert basic_blocks([]) == []
    assert natural_loops([]) == []
    assert reachable([]) == set()
