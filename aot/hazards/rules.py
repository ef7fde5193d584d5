"""Wait states between two instructions, as rows of data: all but those of the matrix instructions (`matrix_rules`).

Every instruction is one wait state, `s_nop N` is N + 1. A row is violated where an instruction of role `after` is
issued fewer than `states` wait states behind one of role `before`, and the registers `made` by the first and `met` by
the second have some in common, in the way that `overlap` says. Roles and sets are those of `access`.

Sources: "ISA" is the table of manually inserted wait states, section 4.5 of AMD's CDNA3 and CDNA4 instruction set
manuals; the rest names the check of LLVM's GCNHazardRecognizer that has the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ANY, SAME, SHIFTED = "any", "same", "shifted"
EQUAL, DIFFERENT = "equal", "different"
GFX942, GFX950 = "gfx942", "gfx950"


@dataclass(frozen=True, slots=True)
class Rule:
    """`states` of gfx942 and of gfx950; 0 where the target interlocks it or has no such instruction.

    `overlap`: some common register, exactly the same registers, or some but not exactly the same. `names`: of the two
    instructions, where it matters.
    """

    name: str
    before: str
    made: str
    after: str
    met: str
    states: tuple[int, int]
    source: str
    overlap: str = ANY
    names: str = ""

    def states_on(self, arch: str) -> int:
        """Wait states on a target."""
        return self.states[(GFX942, GFX950).index(arch)]


GENERAL_RULES: Final = (
    Rule("SGPR of a vector instruction read by VMEM", "valu", "s_write", "vmem", "s_read", (5, 5),
         "ISA; checkVMEMHazards"),
    Rule("SGPR of a vector instruction read by a vector instruction", "valu", "s_write", "valu", "s_read", (2, 2),
         "ISA; checkVALUHazards, VDecCoExec"),
    Rule("SGPR of a vector instruction selects a lane", "valu", "s_write", "lane_select", "lane", (4, 4),
         "ISA; checkRWLaneHazards"),
    Rule("VCC of a vector instruction read by div_fmas", "valu", "s_write", "div_fmas", "vcc", (4, 4),
         "ISA; checkDivFMasHazards"),
    Rule("EXEC of a vector instruction met by DPP", "valu", "s_write", "dpp", "exec", (5, 5), "ISA; checkDPPHazards"),
    Rule("EXEC of a vector instruction met by a lane access", "valu", "s_write", "cross_lane", "exec", (4, 4),
         "ISA; checkVALUHazards, VDecCoExec"),
    Rule("EXEC of a vector instruction met by a matrix instruction", "valu", "s_write", "matrix", "exec", (4, 4),
         "ISA; checkMAIHazards90A"),
    Rule("EXEC of v_cmpx met by permlane", "cmpx", "s_write", "permlane", "exec", (0, 4), "checkPermlaneHazards"),
    Rule("VGPR of a vector instruction read by DPP", "valu", "v_write", "dpp", "v_read", (2, 2),
         "ISA; checkDPPHazards"),
    Rule("VGPR of a vector instruction read by a lane access", "valu", "v_write", "read_lane", "v_read", (1, 1),
         "ISA; checkVALUHazards, VDecCoExec"),
    Rule("VGPR of a vector instruction met by permlane", "valu", "v_write", "permlane", "v_touch", (0, 2),
         "checkPermlaneHazards"),
    Rule("VGPR of a vector instruction read by a matrix instruction", "valu", "v_write", "matrix", "v_read", (2, 2),
         "ISA; checkMAIHazards90A"),
    Rule("result of a transcendental", "transcendental", "v_write", "plain", "v_read", (1, 1),
         "ISA; checkVALUHazards, TransForwarding"),
    Rule("result moved to another part of its register", "shifted", "v_write", "valu", "v_touch", (1, 1),
         "ISA; checkVALUHazards, DstSelForwarding"),
    Rule("M0 of a scalar instruction read by a load to LDS", "salu", "s_write", "direct", "m0", (1, 1),
         "ISA; checkReadM0Hazards"),
    # A store takes its data while the next instructions issue. AMD's manual exempts buffer stores with an SGPR offset,
    # and so did LLVM up to 22; the machine shows the overwritten dword (llvm/llvm-project pull request 197267).
    Rule("data of a wide store overwritten", "wide_store", "data", "valu_matrix", "v_write", (2, 2),
         "ISA; checkVALUHazardsHelper"),
    Rule("data of a wide store with an SGPR offset overwritten", "wide_store_sgpr", "data", "valu_matrix", "v_write",
         (1, 1), "LLVM pull request 197267"),
    Rule("hardware register read after it was set", "s_setreg", "register", "s_getreg", "register", (2, 2),
         "ISA; checkGetRegHazards"),
    Rule("hardware register set after it was set", "s_setreg", "register", "s_setreg", "register", (2, 2),
         "ISA; checkSetRegHazards"),
    Rule("result of a dot product met by another instruction", "dot", "v_write", "vector", "v_touch", (3, 3),
         "ISA; checkMAIVALUHazards", names=DIFFERENT),
    Rule("result of a dot product multiplied by the same", "dot", "v_write", "dot", "dot_ab", (3, 3),
         "ISA; checkMAIVALUHazards", names=EQUAL),
)  # fmt: skip
