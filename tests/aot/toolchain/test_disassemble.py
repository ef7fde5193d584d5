"""The disassembly, in process and by llvm-objdump."""

from __future__ import annotations

import dataclasses

import pytest

from aot.toolchain import Toolchain, disassemble, find_toolchain, read_code_object
from aot.toolchain.errors import DisassemblyError
from tests.aot.toolchain.samples import Sample
from tests.needs import lacking


def test_covers_the_kernel(toolchain: Toolchain, code: dict[Sample, bytes]) -> None:
    """The instructions are the kernel's bytes without gap or rest, from its entry to s_endpgm."""
    for image in code.values():
        kernel, listing = read_code_object(image), disassemble(toolchain, image)
        start = kernel.text_address + kernel.entry_offset
        assert (
            b"".join(instruction.raw for instruction in listing)
            == kernel.text[kernel.entry_offset :][: kernel.code_bytes]
        )
        assert [instruction.address for instruction in listing] == [
            start + sum(step.size for step in listing[:index]) for index in range(len(listing))
        ]
        assert "s_endpgm" in {instruction.mnemonic for instruction in listing}


def test_both_disassemblers_agree(llvm22: Toolchain, code: dict[Sample, bytes]) -> None:
    """llvm-objdump, as a process, lists the same instructions with the same text."""
    if llvm22.libllvm is None or llvm22.objdump is None:
        lacking("libLLVM and llvm-objdump")
    for image in list(code.values())[::3]:
        assert disassemble(llvm22, image) == disassemble(dataclasses.replace(llvm22, libllvm=None), image)


def test_mnemonics(toolchain: Toolchain, code: dict[Sample, bytes]) -> None:
    """A kernel with MFMA and LDS shows them under LLVM's names, operands apart."""
    image = next(image for sample, image in code.items() if sample.name == "loop with lds")
    listing = disassemble(toolchain, image)
    names = [instruction.mnemonic for instruction in listing]
    assert names.count("v_mfma_f32_16x16x16_f16") == 4
    assert {"ds_write_b64", "ds_read_b64", "s_cbranch_scc1"} & set(names)
    load = next(instruction for instruction in listing if instruction.mnemonic.startswith("global_load"))
    assert load.operands.startswith("v[")
    assert load.text == f"{load.mnemonic} {load.operands}"


def test_llvmlite_borrows_a_disassembler(llvm22: Toolchain, code: dict[Sample, bytes]) -> None:
    """llvmlite has none, so its toolchain uses the distribution's."""
    image = next(iter(code.values()))
    assert disassemble(find_toolchain("llvmlite"), image) == disassemble(llvm22, image) == disassemble(None, image)


def test_undecodable(toolchain: Toolchain, code: dict[Sample, bytes]) -> None:
    """Bytes that are no instruction are an error with their address."""
    image = next(iter(code.values()))
    kernel = read_code_object(image)
    start = image.index(kernel.text)
    with pytest.raises(DisassemblyError, match=f"{kernel.text_address:#x}"):
        disassemble(toolchain, image[:start] + b"\xff" * 8 + image[start + 8 :])
