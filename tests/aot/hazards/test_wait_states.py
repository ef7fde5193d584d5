"""Every row of wait states finds its planted fault, one wait state short, and accepts the same code with one more."""

from __future__ import annotations

from collections import defaultdict

import pytest

from aot.emulator.decode.known import decode_code
from aot.hazards import Finding, check_code
from aot.hazards.wait_states import RULES
from aot.toolchain import code_object
from tests.aot.emulator.program_text import program
from tests.aot.hazards.pairs import INNOCENT, PAIRS, Pair

ARCHES = ("gfx942", "gfx950")
#: Longer than any row, with everything waited for.
APART = "s_waitcnt vmcnt(0) lgkmcnt(0); s_nop 15; s_nop 15"


def numbered(pairs: list[tuple[Pair, int]], arch: str) -> dict[int, list[Finding]]:
    """Findings of each pair with that many wait states between, all in one kernel; s_sleep N starts pair N."""
    body = "\n".join(
        f"{APART}; s_sleep {number}; {first}; {'; '.join(nops(states))}; {second}"
        for number, ((first, second), states) in enumerate(pairs)
    )
    code = program(f"{body}\n{APART}", arch)
    kernel = code_object.read(code)
    place, number = {}, -1
    for instruction in decode_code(kernel, code).instructions:
        if instruction.form.name == "s_sleep":
            number = instruction.decoded.number
        place[instruction.pc] = number
    found: dict[int, list[Finding]] = defaultdict(list)
    for finding in check_code(code, 64):
        found[place[finding.address]].append(finding)
    return found


def nops(states: int) -> list[str]:
    """Instructions that take exactly so many wait states."""
    return [f"s_nop {min(states - start, 16) - 1}" for start in range(0, states, 16)]


def rows(arch: str) -> list[tuple[str, Pair, int]]:
    return [
        (rule.name, pair, rule.states_on(arch)) for rule in RULES if rule.states_on(arch) for pair in PAIRS[rule.name]
    ]


def test_every_row_has_a_planted_fault_and_a_source() -> None:
    """A row without a pair of instructions that breaks it on some target shows nothing."""
    assert {rule.name for rule in RULES} == set(PAIRS)
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert PAIRS[rule.name], rule.name
        assert rule.source
        assert max(rule.states) > 0


@pytest.mark.parametrize("arch", ARCHES)
def test_one_wait_state_short_is_found(arch: str) -> None:
    """Of each pair exactly the row it was made for is reported, at the second instruction, by one wait state."""
    planted = rows(arch)
    found = numbered([(pair, states - 1) for _, pair, states in planted], arch)
    for number, (name, pair, states) in enumerate(planted):
        named = {finding.rule: finding for finding in found[number]}
        assert name in named, (name, pair, states, found[number])
        assert named[name].detail.startswith("1 wait states"), named[name]
        assert named[name].before
        assert pair[1].split()[0].removesuffix("_e32") in named[name].text


@pytest.mark.parametrize("arch", ARCHES)
def test_enough_wait_states_are_accepted(arch: str) -> None:
    """The clean twins, and pairs that no row is about, give no finding."""
    planted = rows(arch)
    clean = [(pair, states) for _, pair, states in planted] + [(pair, 0) for pair in INNOCENT]
    found = numbered(clean, arch)
    assert not [(clean[number], findings) for number, findings in found.items() if findings]


def test_every_instruction_counts_and_s_nop_counts_its_number() -> None:
    """Independent instructions are wait states too."""
    pair = ("v_readfirstlane_b32 s20, v1", "buffer_load_dword v200, off, s[8:11], s20")
    for between, right in (("s_nop 3", False), ("s_nop 3; s_mov_b32 s30, 0", True), ("s_nop 1; s_nop 2", True)):
        findings = check_code(program(f"{pair[0]}; {between}; {pair[1]}; {APART}"), 64)
        assert (not findings) == right, (between, findings)


@pytest.mark.parametrize(
    "body",
    [
        # The shorter of two ways, which a branch takes.
        "v_mov_b32 v20, 0; s_cbranch_scc0 1f; s_nop 7; 1: {matrix}",
        # Around the back edge only.
        "1: {matrix}; s_nop 7; v_mov_b32 v20, 0; s_cbranch_scc0 1b; s_nop 7; {matrix}",
        # Through two blocks.
        "s_cbranch_scc1 2f; v_mov_b32 v20, 0; s_branch 1f; 2: s_nop 7; 1: {matrix}",
    ],
    ids=["branch", "back edge", "two blocks"],
)
def test_the_worst_path_counts(body: str) -> None:
    """A hazard on one path is found; the same code with the producer further away on all of them is clean."""
    matrix = "v_mfma_f32_16x16x16_f16 v[200:203], v[20:21], v[22:23], 0"
    text = body.format(matrix=matrix)
    [finding] = check_code(program(f"{text}; {APART}"), 64)
    assert finding.rule == "VGPR of a vector instruction read by a matrix instruction"
    assert not check_code(program(f"{text.replace('v20, 0', 'v20, 0; s_nop 1')}; {APART}"), 64)


def test_a_later_matrix_instruction_stands_for_the_earlier_one() -> None:
    """A chain of accumulations is held to its last link, which waited for the others in the unit."""
    chain = "v_mfma_f32_32x32x8_f16 v[64:79], v[20:21], v[22:23], v[64:79]"
    last = "v_mfma_f32_4x4x4_16b_f16 v[64:67], v[20:21], v[22:23], v[64:67]"
    assert [f.detail[0] for f in check_code(program(f"{chain}; s_nop 15; {last}; s_nop 3; v_mov_b32 v0, v65; {APART}"))]
    assert not check_code(program(f"{chain}; s_nop 15; {last}; s_nop 4; v_mov_b32 v0, v65; {APART}"), 64)
