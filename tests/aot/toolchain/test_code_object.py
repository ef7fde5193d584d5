"""The code object reader against LLVM's own readers, and against damage."""

from __future__ import annotations

import io
import random
import re
import subprocess
from typing import Any

import msgpack
import pytest
from elftools.elf.elffile import ELFFile

from aot.toolchain import CodeObject, Engine, Toolchain, link, read_code_object
from aot.toolchain.errors import CodeObjectError
from tests.aot.toolchain.samples import Sample
from tests.needs import lacking


def find(code: dict[Sample, bytes], name: str, arch: str = "gfx950") -> CodeObject:
    return next(read_code_object(image) for sample, image in code.items() if (sample.name, sample.arch) == (name, arch))


def test_fields(code: dict[Sample, bytes]) -> None:
    """A sample's LDS, arguments, block limit and architecture come out as they were asked for."""
    for sample, image in code.items():
        kernel = read_code_object(image)
        assert (kernel.arch, kernel.symbol, kernel.wavefront_size) == (sample.arch, sample.symbol, 64)
        assert kernel.lds_bytes == kernel.descriptor.lds_bytes == sample.lds_bytes
        assert kernel.kernarg_bytes == kernel.descriptor.kernarg_bytes == 20 + 4 * sample.spare_arguments
        assert kernel.max_flat_workgroup_size == 256
        assert (kernel.scratch_bytes, kernel.vgpr_spills, kernel.sgpr_spills) == (0, 0, 0)
        assert [argument.offset for argument in kernel.arguments[:3]] == [0, 8, 16]
        assert [argument.kind for argument in kernel.arguments[:3]] == ["global_buffer", "global_buffer", "by_value"]


def test_registers_match_metadata(code: dict[Sample, bytes]) -> None:
    """The descriptor allocates at least what the metadata says is used, in granules.

    It may allocate more: where LDS bounds occupancy, LLVM raises the allocation to what that occupancy leaves.
    """
    for image in code.values():
        kernel = read_code_object(image)
        used, descriptor = kernel.vgprs, kernel.descriptor
        assert descriptor.vgprs >= used
        assert descriptor.sgprs >= kernel.sgprs
        if kernel.lds_bytes < 8192:
            assert descriptor.vgprs == max(8, -(-used // 8) * 8)
            assert descriptor.sgprs - kernel.sgprs < 8
        if kernel.agprs:
            assert descriptor.accum_offset + kernel.agprs == used


def test_descriptor_matches_llvm(
    toolchain: Toolchain, code: dict[Sample, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """llvm-objdump prints the descriptor as assembler directives; ours has the same values.

    Only without constant tables: it decodes a .rodata that holds nothing but descriptors.
    """
    if toolchain.objdump is None:
        lacking("llvm-objdump")
    folder = tmp_path_factory.mktemp("descriptor")
    plain = [(sample, image) for sample, image in code.items() if not sample.tables]
    for index, (sample, image) in enumerate(plain):
        path = folder / f"{index}.so"
        path.write_bytes(image)
        command = [
            str(toolchain.objdump),
            "-D",
            "-j",
            ".rodata",
            f"--disassemble-symbols={sample.symbol}.kd",
            str(path),
        ]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        printed = {key: int(value) for key, value in re.findall(r"\.amdhsa_(\w+) (\d+)", text)}
        ours = read_code_object(image).descriptor
        assert printed["group_segment_fixed_size"] == ours.lds_bytes
        assert printed["private_segment_fixed_size"] == ours.scratch_bytes
        assert printed["kernarg_size"] == ours.kernarg_bytes
        assert printed["accum_offset"] == ours.accum_offset
        assert printed["next_free_vgpr"] == ours.vgprs
        assert printed["float_round_mode_32"] == ours.round_mode_32
        assert printed["float_round_mode_16_64"] == ours.round_mode_16_64
        assert printed["float_denorm_mode_32"] == ours.denorm_mode_32
        assert printed["float_denorm_mode_16_64"] == ours.denorm_mode_16_64
        assert printed["dx10_clamp"] == ours.dx10_clamp
        assert printed["ieee_mode"] == ours.ieee_mode
        assert printed["fp16_overflow"] == ours.fp16_overflow
        assert printed["tg_split"] == ours.threadgroup_split
        assert printed["system_sgpr_workgroup_id_x"] == ours.workgroup_id_x
        assert printed["system_sgpr_workgroup_id_y"] == ours.workgroup_id_y
        assert printed["system_sgpr_workgroup_id_z"] == ours.workgroup_id_z
        assert printed["system_vgpr_workitem_id"] + 1 == ours.workitem_id_dims
        assert printed["user_sgpr_kernarg_segment_ptr"] == ours.kernarg_segment_ptr
        assert printed["user_sgpr_dispatch_ptr"] == ours.dispatch_ptr
        assert printed["uses_dynamic_stack"] == ours.uses_dynamic_stack


def test_same_as_pyelftools(code: dict[Sample, bytes]) -> None:
    """pyelftools finds the same code, the same entry and the same metadata in the file."""
    for image in code.values():
        kernel = read_code_object(image)
        file = ELFFile(io.BytesIO(image))
        sections: dict[str, Any] = {section.name: section for section in file.iter_sections()}
        text = sections[".text"]
        assert (text.data(), text["sh_addr"]) == (kernel.text, kernel.text_address)
        function = sections[".dynsym"].get_symbol_by_name(kernel.symbol)[0]
        assert function["st_value"] == kernel.text_address + kernel.entry_offset
        assert function["st_size"] == kernel.code_bytes
        note = next(sections[".note"].iter_notes())
        described = msgpack.unpackb(bytes(note["n_descdata"]))["amdhsa.kernels"][0]
        assert described[".vgpr_count"] == kernel.vgprs
        assert len(described[".args"]) == len(kernel.arguments)


def test_spills_and_scratch_are_seen(toolchain: Toolchain, engine: Engine) -> None:
    """A kernel that keeps 200 loaded values alive within 128 registers reports its spills and its scratch."""
    ir = Sample("spill", mfma=False).ir().replace('"256,256"', '"1024,1024"')
    loads = "".join(
        f"  %p{i} = getelementptr float, ptr addrspace(1) %a, i64 {i * 4096}\n"
        f"  %i{i} = getelementptr float, ptr addrspace(1) %p{i}, i32 %lane\n"
        f"  %v{i} = load volatile float, ptr addrspace(1) %i{i}\n"
        for i in range(200)
    )
    stores = "".join(f"  store volatile float %v{i}, ptr addrspace(1) %i{i}\n" for i in range(200))
    kernel = read_code_object(link(toolchain, engine.compile(ir.replace("done:\n", f"done:\n{loads}{stores}"))))
    assert kernel.vgpr_spills > 0
    assert kernel.scratch_bytes == kernel.descriptor.scratch_bytes > 0
    assert kernel.descriptor.has_private_segment


def test_damage(code: dict[Sample, bytes]) -> None:
    """Any truncation, and any overwritten bytes, give a code object or a CodeObjectError, nothing else."""
    image = next(iter(code.values()))
    for length in range(0, len(image), 7):
        with pytest.raises(CodeObjectError):
            read_code_object(image[:length])
    generator = random.Random(2)
    rejected = 0
    for _ in range(3000):
        damaged = bytearray(image)
        for _ in range(generator.randrange(1, 5)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            read_code_object(bytes(damaged))
        except CodeObjectError:
            rejected += 1
    assert 0 < rejected < 3000


@pytest.mark.parametrize("foreign", [b"", b"\x7fELF", b"not an ELF file at all" * 9])
def test_foreign(foreign: bytes) -> None:
    """Bytes that were never a code object are named as such."""
    with pytest.raises(CodeObjectError, match="not an AMDGPU HSA ELF file"):
        read_code_object(foreign)


def test_relocatable_object(objects: dict[Sample, bytes]) -> None:
    """An object that was not linked is refused, not half read."""
    with pytest.raises(CodeObjectError, match="not a linked code object"):
        read_code_object(next(iter(objects.values())))
