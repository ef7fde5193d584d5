"""Code objects of every family in the eyes of other people's readers."""

from __future__ import annotations

import io
import json
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from aot.families import emit
from aot.kernels.source import KernelSource
from aot.toolchain import (
    Toolchain,
    content_key,
    elf,
    link,
    open_engine,
    read_code_object,
    symbol_of,
    with_symbol,
)
from aot.toolchain.code_object import read_metadata
from aot.toolchain.loader_contract import Expected, violations
from grids.catalogue import buildable
from grids.families import families
from tests.aot.toolchain.comgr import Comgr, ComgrError, known_targets

ARCHS = ("gfx942", "gfx950")
#: EF_AMDGPU_MACH of gfx90a and the ABI version of code object version 4, for a comgr older than our GPUs and version 5.
_MACH_GFX90A, _ABI_VERSION_4 = 0x3F, 2

Shipped = dict[tuple[str, str], tuple[bytes, KernelSource]]


@pytest.fixture(scope="module")
def shipped(toolchain: Toolchain) -> Shipped:
    """A small kernel of every family for both GPUs, made as the farm makes it: by (GPU, family)."""
    found: Shipped = {}
    for arch in ARCHS:
        table = buildable(arch, ["bf16"])
        tile = table.wide("tile_m") * table.wide("tile_n")
        for family in families():
            rows = table.equals("family", family).nonzero()[0]
            identity = table.row(int(rows[tile[rows].argmin()]))
            source = emit(identity, toolchain.flavor)
            symbol = symbol_of(content_key(source, toolchain, arch))
            engine = open_engine(toolchain, arch, source.codegen_options)
            code = link(toolchain, engine.compile(with_symbol(source.ir, symbol), source.passes))
            assert violations(code, Expected(arch, symbol, source.arguments, source.block_size)) == ()
            found[arch, family] = code, source
            engine.close()
    assert len(found) == len(ARCHS) * len(families())
    return found


def _spelled(value: Any) -> Any:
    """Metadata with every number as the text that comgr makes of it."""
    if isinstance(value, dict):
        return {key: _spelled(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_spelled(entry) for entry in value]
    return str(int(value)) if isinstance(value, bool) else str(value)


def test_comgr_reads_our_metadata(shipped: Shipped) -> None:
    """comgr, by which HIP reads kernels and arguments, finds the metadata that we read, to the last field."""
    for code, source in shipped.values():
        with Comgr(code) as reader:
            found = reader.metadata()
        assert found == _spelled(read_metadata(elf.read_elf(code).find(".note").content))
        (kernel,) = found["amdhsa.kernels"]
        offsets = {argument[".name"]: int(argument[".offset"]) for argument in kernel[".args"]}
        assert offsets == source.arguments.offsets
        assert int(kernel[".max_flat_workgroup_size"]) == source.block_size


def test_comgr_finds_our_symbols(shipped: Shipped) -> None:
    """comgr lists the kernel and its descriptor, both defined, where we say that they are."""
    for code, _ in shipped.values():
        kernel = read_code_object(code)
        with Comgr(code) as reader:
            found = {symbol.name: symbol for symbol in reader.symbols()}
        assert set(found) == {kernel.symbol, f"{kernel.symbol}.kd"}
        function, descriptor = found[kernel.symbol], found[f"{kernel.symbol}.kd"]
        assert (function.type, function.size) == (elf.STT_FUNC, kernel.code_bytes)
        assert (descriptor.type, descriptor.size) == (elf.STT_OBJECT, 64)
        assert not function.undefined
        assert not descriptor.undefined
        assert function.value == kernel.text_address + kernel.entry_offset
        assert descriptor.value + kernel.descriptor.entry_offset == function.value


def test_comgr_names_our_target(shipped: Shipped) -> None:
    """comgr reads machine and feature bits and names the target without features.

    A comgr older than these GPUs cannot name them: it is shown the same object with a machine and a version that it
    knows, under which the feature bits mean the same.
    """
    known = known_targets()
    for (arch, _), (code, _) in shipped.items():
        wanted = f"amdgcn-amd-amdhsa--{arch}"
        name = wanted if wanted in known else "amdgcn-amd-amdhsa--gfx90a"
        with Comgr(code if wanted in known else _older(code)) as reader:
            assert reader.target() == name
        with Comgr(_older(code, features=0x200)) as reader:
            assert reader.target() == "amdgcn-amd-amdhsa--gfx90a:xnack+"


def _older(code: bytes, features: int = 0) -> bytes:
    """The same object as code object version 4 for gfx90a, with more feature bits."""
    place = 48  # e_flags
    (flags,) = struct.unpack_from("<I", code, place)
    word = struct.pack("<I", flags & ~0xFF | _MACH_GFX90A | features)
    return code[:8] + bytes([_ABI_VERSION_4]) + code[9:place] + word + code[place + 4 :]


def test_comgr_refuses_what_is_broken(shipped: Shipped) -> None:
    """The judge is not blind: without its note or its version, a code object has no metadata and no target."""
    code = next(iter(shipped.values()))[0]
    note = elf.read_elf(code).find(".note").offset
    with Comgr(code[: note + 8] + b"\x21" + code[note + 9 :]) as reader, pytest.raises(ComgrError):
        reader.metadata()
    with Comgr(code[:8] + b"\x77" + code[9:]) as reader, pytest.raises(ComgrError):
        reader.target()


def _by_pyelftools(path: Path) -> Iterator[tuple[str, str, str, int, int]]:
    table = ELFFile(io.BytesIO(path.read_bytes())).get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    for symbol in table.iter_symbols():
        info = symbol["st_info"]
        yield symbol.name, info["bind"][4:], info["type"][4:], symbol["st_value"], symbol["st_size"]


def _by_readelf(path: Path) -> Iterator[tuple[str, str, str, int, int]]:
    text = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True).stdout  # noqa: S607
    table = text.split("Symbol table '.symtab'")[1]
    for value, size, kind, binding, name in re.findall(
        r"^ +\d+: ([0-9a-f]+) +(\d+) (\w+) +(\w+) +\w+ +\w+ *(\S*)$", table, re.MULTILINE
    ):
        yield name, binding, kind, int(value, 16), int(size)


def _by_llvm(path: Path, tool: str) -> Iterator[tuple[str, str, str, int, int]]:
    command = [tool, "--elf-output-style=JSON", "--symbols", str(path)]
    (found,) = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for entry in found["Symbols"]:
        symbol = entry["Symbol"]
        names = symbol["Name"]["Name"], symbol["Binding"]["Name"].upper(), symbol["Type"]["Name"]
        kind = {"None": "NOTYPE", "Function": "FUNC", "Object": "OBJECT", "Section": "SECTION"}[names[2]]
        yield names[0], names[1], kind, symbol["Value"], symbol["Size"]


def test_readers_agree_on_the_symbol_table(shipped: Shipped, toolchain: Toolchain, tmp_path: Path) -> None:
    """pyelftools, and GNU's and LLVM's readelf where they are, see one `.symtab`; only the kernel in it is global."""
    names = {0: "LOCAL", 1: "GLOBAL"}, {0: "NOTYPE", 1: "OBJECT", 2: "FUNC"}
    llvm = str(toolchain.objdump.with_name("llvm-readobj")) if toolchain.objdump else ""
    for (arch, family), (code, _) in shipped.items():
        path = tmp_path / f"{arch}-{family}.so"
        path.write_bytes(code)
        file = elf.read_elf(code)
        ours = [
            (symbol.name, names[0][symbol.binding], names[1][symbol.type], symbol.value, symbol.size)
            for symbol in file.symbols(file.find(".symtab"))
        ]
        assert list(_by_pyelftools(path)) == ours
        if shutil.which("readelf"):
            assert list(_by_readelf(path)) == ours
        if llvm and Path(llvm).exists():
            assert list(_by_llvm(path, llvm)) == ours
        kernel = read_code_object(code)
        assert [row[:3] for row in ours if row[1] == "GLOBAL"] == [
            (kernel.symbol, "GLOBAL", "FUNC"),
            (f"{kernel.symbol}.kd", "GLOBAL", "OBJECT"),
        ]
