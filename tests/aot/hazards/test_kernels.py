"""Compiled kernels are free of findings: ours of all families and both targets, and Triton's."""

from __future__ import annotations

import pytest

from aot.emulator.errors import UnknownInstructionError
from aot.hazards import check_code
from aot.toolchain import Toolchain
from tests.aot.emulator.program_text import program
from tests.aot.emulator.triton.launch import DATA, CompiledKernel, load
from tests.aot.hazards.compiled import compiled


@pytest.mark.parametrize("kernel", load(DATA), ids=str)
def test_kernels_of_triton(kernel: CompiledKernel) -> None:
    """Code of another front end, with loads to LDS, transposed reads, DPP, divergent code and atomics."""
    assert not check_code(kernel.code, kernel.block, foreign=True)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_our_kernels(arch: str, local_toolchain: Toolchain) -> None:
    """A few of each direction and type."""
    for label, code, threads in compiled(arch, local_toolchain, every=24):
        assert not check_code(code, threads), label


@pytest.mark.full
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_all_kernels_of_the_replay_lists(arch: str, local_toolchain: Toolchain) -> None:
    """Kernels spread over all axes of all directions."""
    for label, code, threads in compiled(arch, local_toolchain, every=1):
        assert not check_code(code, threads), label


def test_an_unknown_instruction_is_refused() -> None:
    """What the tables do not know is named, with its place, and nothing is said of the kernel."""
    with pytest.raises(UnknownInstructionError, match="s_sendmsg"):
        check_code(program("s_sendmsg sendmsg(MSG_INTERRUPT)"), 64)
    with pytest.raises(UnknownInstructionError, match="HW_REG_LDS_ALLOC"):
        check_code(program("s_getreg_b32 s20, hwreg(HW_REG_LDS_ALLOC)", "gfx942"), 64)
