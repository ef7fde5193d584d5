"""Statistics of the loops that hold matrix instructions: how much of an iteration is multiplication, how much is not.

One iteration is each basic block of a loop once, without the blocks of loops inside it. The figure of merit

    S = MFMA clk / (MFMA clk + 4 clk per other instruction + clk of s_nop)

takes one wave alone, with nothing overlapping, so it is pessimistic; it compares loops of equal tile. `s_nop N` holds
the wave for N + 1 issue slots of 4 clk. `valu_per_16` is VALU instructions per 16 MFMA clk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aot.inspection import instruction_classes as classes
from aot.inspection.control_flow import Block, InstructionLike, Loop, basic_blocks, natural_loops, reachable

CLK_PER_ISSUE = 4
_MUL_HI = ("v_mul_hi_u32", "v_mul_hi_i32", "s_mul_hi_u32", "s_mul_hi_i32")


@dataclass(frozen=True, slots=True)
class InstructionMix:
    """Counts of instructions by unit; `by_shape` names the matrix instructions, `nop_clk` what the s_nops hold up."""

    mfma: int
    valu: int
    salu: int
    smem: int
    lds: int
    vmem: int
    vmem_to_lds: int  #: of `vmem`, the loads that go straight to LDS
    waits: int
    barriers: int
    nops: int
    nop_clk: int
    divisions: int  #: expanded integer divisions
    mul_hi: int  #: high halves of products, which magic divisions are made of
    scratch: int  #: of `vmem`, accesses to scratch: spills
    accvgpr_moves: int  #: of `valu`, copies between the two halves of the register file
    mfma_clk: int
    by_shape: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """All instructions."""
        return (
            self.mfma
            + self.valu
            + self.salu
            + self.smem
            + self.lds
            + self.vmem
            + self.waits
            + self.barriers
            + self.nops
        )

    @property
    def share(self) -> float:
        """The figure of merit S of the module's head; 0 where there is no matrix instruction."""
        others = self.total - self.mfma - self.nops
        clk = self.mfma_clk + CLK_PER_ISSUE * others + self.nop_clk
        return self.mfma_clk / clk if clk else 0.0

    @property
    def valu_per_16(self) -> float:
        """VALU instructions per 16 MFMA clk; 0 where there is no matrix instruction."""
        return self.valu * 16 / self.mfma_clk if self.mfma_clk else 0.0

    def to_json(self) -> dict[str, object]:
        """Plain data, with the two derived figures rounded to four digits."""
        counts: dict[str, object] = {name: getattr(self, name) for name in self.__slots__ if name != "by_shape"}
        return counts | {
            "total": self.total,
            "mfma_by_shape": dict(self.by_shape),
            "S": round(self.share, 4),
            "valu_per_16_mfma_clk": round(self.valu_per_16, 4),
        }


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """One loop with matrix instructions of its own."""

    address: int  #: of the loop header, as in the disassembly
    spans: tuple[tuple[int, int], ...]  #: [start, end) addresses of its own blocks, which need not lie together
    depth: int  #: loops around it
    innermost: bool
    mix: InstructionMix

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "address": self.address,
            "spans": [list(span) for span in self.spans],
            "depth": self.depth,
            "innermost": self.innermost,
            **self.mix.to_json(),
        }


@dataclass(frozen=True, slots=True)
class KernelStatistics:
    """Every loop with matrix instructions, which one is hot, and the instruction mix of the whole kernel."""

    loops: tuple[LoopStatistics, ...]  #: in address order
    hot: int | None  #: index into `loops`, None where no loop multiplies
    kernel: InstructionMix
    code_bytes: int
    blocks: int

    @property
    def hot_loop(self) -> LoopStatistics | None:
        """The loop that most of the time should go to."""
        return None if self.hot is None else self.loops[self.hot]

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "hot_loop": self.hot,
            "loops": [loop.to_json() for loop in self.loops],
            "kernel": self.kernel.to_json(),
            "code_bytes": self.code_bytes,
            "basic_blocks": self.blocks,
        }


def instruction_mix(instructions: Iterable[InstructionLike]) -> InstructionMix:
    """Count a run of instructions. Raises ValueError at a mnemonic of no known unit."""
    units: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    nop_clk = mfma_clk = divisions = mul_hi = to_lds = scratch = accvgpr = 0
    for instruction in instructions:
        mnemonic = instruction.mnemonic
        unit = classes.instruction_class(mnemonic)
        units[unit] += 1
        if unit == classes.MFMA:
            shapes[classes.mfma_shape(mnemonic)] += 1
            mfma_clk += classes.mfma_clk(mnemonic)
        elif unit == classes.NOP:
            nop_clk += CLK_PER_ISSUE * (1 + int(instruction.operands.split()[0], 0))
        elif unit == classes.VMEM:
            to_lds += classes.is_load_to_lds(mnemonic, instruction.operands)
            scratch += mnemonic.startswith("scratch_")
        else:
            divisions += classes.is_integer_division(mnemonic)
            mul_hi += classes.strip_encoding(mnemonic) in _MUL_HI
            accvgpr += mnemonic.startswith("v_accvgpr_")
    return InstructionMix(
        mfma=units[classes.MFMA],
        valu=units[classes.VALU],
        salu=units[classes.SALU],
        smem=units[classes.SMEM],
        lds=units[classes.LDS],
        vmem=units[classes.VMEM],
        vmem_to_lds=to_lds,
        waits=units[classes.WAIT],
        barriers=units[classes.BARRIER],
        nops=units[classes.NOP],
        nop_clk=nop_clk,
        divisions=divisions,
        mul_hi=mul_hi,
        scratch=scratch,
        accvgpr_moves=accvgpr,
        mfma_clk=mfma_clk,
        by_shape=tuple(sorted(shapes.items())),
    )


def _instructions_of(
    instructions: Sequence[InstructionLike], blocks: Sequence[Block], numbers: Iterable[int]
) -> list[InstructionLike]:
    return [instructions[index] for number in numbers for index in range(blocks[number].first, blocks[number].last)]


def _statistics(instructions: Sequence[InstructionLike], blocks: Sequence[Block], loop: Loop) -> LoopStatistics:
    own = _instructions_of(instructions, blocks, loop.own_blocks)
    return LoopStatistics(
        address=instructions[blocks[loop.header].first].address,
        spans=_spans(own),
        depth=loop.depth,
        innermost=len(loop.own_blocks) == len(loop.blocks),
        mix=instruction_mix(own),
    )


def _spans(instructions: Sequence[InstructionLike]) -> tuple[tuple[int, int], ...]:
    """Runs of neighbouring instructions, by address."""
    spans: list[tuple[int, int]] = []
    for instruction in instructions:
        start, end = instruction.address, instruction.address + instruction.size
        if spans and spans[-1][1] == start:
            start = spans.pop()[0]
        spans.append((start, end))
    return tuple(spans)


def _hot(loops: Sequence[LoopStatistics]) -> int | None:
    """The best S among the loops that multiply at least half as much per iteration as the one that multiplies most.

    A kernel may hold the same K loop twice, a lean one and a general one, and choose by a uniform test: the lean one is
    hot. A remainder loop that holds a few matrix instructions never is.
    """
    if not loops:
        return None
    most = max(loop.mix.mfma_clk for loop in loops)
    worthy = [index for index, loop in enumerate(loops) if 2 * loop.mix.mfma_clk >= most]
    return max(worthy, key=lambda index: (loops[index].mix.share, loops[index].mix.mfma_clk, -index))


def kernel_statistics(instructions: Sequence[InstructionLike]) -> KernelStatistics:
    """Statistics of one kernel from its disassembly; what no flow reaches (padding behind the end) is not counted."""
    blocks = basic_blocks(instructions)
    candidates = [_statistics(instructions, blocks, loop) for loop in natural_loops(blocks)]
    loops = tuple(loop for loop in candidates if loop.mix.mfma)
    reached = sorted(reachable(blocks))
    code = _instructions_of(instructions, blocks, reached)
    return KernelStatistics(
        loops, _hot(loops), instruction_mix(code), sum(instruction.size for instruction in code), len(reached)
    )
