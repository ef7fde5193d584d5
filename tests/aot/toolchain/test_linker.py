"""Our linker against ld.lld, and what it refuses."""

from __future__ import annotations

import dataclasses
import io
import random
import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from aot.toolchain import Engine, Toolchain, elf, link, read_code_object
from aot.toolchain.discover import OWN_LINKER
from aot.toolchain.dynamic_symbols import gnu_hash, gnu_order, sysv_hash
from aot.toolchain.errors import CodeObjectError, LinkError, ToolchainMissingError, UnsupportedObjectError
from aot.toolchain.link import link_with_lld
from aot.toolchain.linker import link_object
from tests.aot.toolchain.samples import Sample
from tests.needs import lacking, needed

PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def with_lld(toolchain: Toolchain) -> Toolchain:
    """A toolchain whose ld.lld can be asked for the reference bytes."""
    if not toolchain.linker:
        lacking("ld.lld")
    return toolchain


def same(toolchain: Toolchain, obj: bytes) -> bool:
    return link_object(obj, toolchain.linker_version) == link_with_lld(toolchain, obj)


def test_same_bytes_as_lld(with_lld: Toolchain, objects: dict[Sample, bytes]) -> None:
    """Our linker gives ld.lld's bytes on every sample of both architectures and hands none of them over."""
    assert [sample for sample, obj in objects.items() if not same(with_lld, obj)] == []


def test_page_boundary(with_lld: Toolchain, engine: Engine) -> None:
    """The read-only segment ending just before, exactly on and just behind a page is laid out as ld.lld does it."""

    def rodata_end(words: int) -> tuple[int, bytes]:
        """The size of the first PT_LOAD (the second program header), and the object."""
        obj = engine.compile(Sample("edge", tables=(words,)).ir())
        header = elf.HEADER.size + elf.SEGMENT.size
        return elf.SEGMENT.unpack_from(link_object(obj, with_lld.linker_version), header)[5], obj

    base, _ = rodata_end(9)
    words = 9 + (PAGE_BYTES - base % PAGE_BYTES) // 4
    ends = []
    for extra in (-1, 0, 1):
        end, obj = rodata_end(words + extra)
        ends.append(end % PAGE_BYTES)
        assert same(with_lld, obj), extra
    assert ends == [PAGE_BYTES - 4, 0, 4]


def test_several_kernels(with_lld: Toolchain, engine: Engine) -> None:
    """With a dozen kernels in one object the hash tables have several buckets, and the bytes are still ld.lld's."""
    samples = [Sample("many", symbol=f"kernel_{index}", mfma=False) for index in range(12)]
    parts = [sample.ir().replace("#0", f"#{index}") for index, sample in enumerate(samples)]
    lines: dict[str, None] = {}
    bodies = []
    for part in parts:
        head, _, rest = part.partition("define ")
        body, _, tail = rest.partition("\n}\n")
        bodies.append(f"define {body}\n}}\n")
        lines |= dict.fromkeys((head + tail).splitlines())
    obj = engine.compile("".join(bodies) + "\n".join(lines))
    assert same(with_lld, obj)


def test_hidden_symbols(with_lld: Toolchain, engine: Engine) -> None:
    """A function that other files may not see is local in the linked file, between the locals and the kernel."""
    helper = "define hidden void @{0}() noinline {{ ret void }}\n"
    obj = engine.compile(Sample("hidden").ir() + helper.format("first_helper") + helper.format("helper"))
    assert same(with_lld, obj)
    file = elf.read_elf(link_object(obj, with_lld.linker_version))
    bindings = {symbol.name: symbol.binding for symbol in file.symbols(file.find(".symtab"))}
    assert (bindings["helper"], bindings["rocke_kernel"]) == (elf.STB_LOCAL, elf.STB_GLOBAL)


def static_symbols(image: bytes) -> set[tuple[str, str, str, int]]:
    """(name, binding, type, size) of the named symbols of `.symtab`, as pyelftools reads them."""
    table = ELFFile(io.BytesIO(image)).get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    return {(s.name, s["st_info"]["bind"], s["st_info"]["type"], s["st_size"]) for s in table.iter_symbols() if s.name}


def test_pyelftools_finds_the_kernel(code: dict[Sample, bytes]) -> None:
    """`.symtab` lists every kernel as a global function and its descriptor as a global object of 64 bytes."""
    for sample, image in code.items():
        size = read_code_object(image).code_bytes
        kernel = {(sample.symbol, "STB_GLOBAL", "STT_FUNC", size)}
        descriptor = {(f"{sample.symbol}.kd", "STB_GLOBAL", "STT_OBJECT", 64)}
        found = static_symbols(image)
        assert kernel | descriptor <= found
        assert {row for row in found if row[1] != "STB_LOCAL"} == kernel | descriptor


@needed(Path("/usr/bin/readelf").exists(), "binutils' readelf")
def test_binutils_accepts_the_tables(toolchain: Toolchain, code: dict[Sample, bytes], tmp_path: Path) -> None:
    """GNU readelf finds the kernel and its descriptor through both hash tables, without a complaint."""
    sample, image = next(iter(code.items()))
    path = tmp_path / "kernel.so"
    path.write_bytes(image)
    result = subprocess.run(["/usr/bin/readelf", "-aW", "-I", str(path)], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    dynamic, static = (table for table in result.stdout.split("Symbol table '")[1:])
    for name, table in ((".dynsym", dynamic), (".symtab", static)):
        assert table.startswith(name)
        assert re.search(rf"FUNC +GLOBAL +PROTECTED +7 {sample.symbol}$", table, re.MULTILINE)
        assert re.search(rf" 64 OBJECT +GLOBAL +DEFAULT +6 {sample.symbol}\.kd$", table, re.MULTILINE)
    assert toolchain.linker_version.encode() in image


def test_link_hands_over_what_it_does_not_know(with_lld: Toolchain, engine: Engine) -> None:
    """An object with initialised data is refused by our linker and linked by ld.lld."""
    ir = Sample("data").ir() + "@counter = addrspace(1) global i32 7\n"
    obj = engine.compile(ir)
    with pytest.raises(UnsupportedObjectError, match=r"\.data"):
        link_object(obj, with_lld.linker_version)
    assert link(with_lld, obj) == link_with_lld(with_lld, obj)


def test_unknown_lld_links_everything_itself(with_lld: Toolchain, objects: dict[Sample, bytes]) -> None:
    """An LLD major that our layout was not held against is never imitated."""
    future = dataclasses.replace(with_lld, linker_version="LLD 99.0.0", linker=("/bin/false",))
    with pytest.raises(LinkError, match="/bin/false"):
        link(future, next(iter(objects.values())))


def test_without_lld(toolchain: Toolchain, engine: Engine, objects: dict[Sample, bytes]) -> None:
    """Without ld.lld our linker serves alone, says so in .comment, and names the command that would get one."""
    alone = dataclasses.replace(toolchain, linker=(), linker_version=OWN_LINKER)
    image = link(alone, next(iter(objects.values())))
    assert f"Linker: {OWN_LINKER}".encode() in image
    assert read_code_object(image).symbol == "rocke_kernel"
    obj = engine.compile(Sample("data").ir() + "@counter = addrspace(1) global i32 7\n")
    with pytest.raises(ToolchainMissingError, match="pip install"):
        link(alone, obj)


def test_undefined_symbol(with_lld: Toolchain, engine: Engine) -> None:
    """A reference to what the object does not define is an error with ld.lld's words, not a broken code object."""
    ir = Sample("call").ir().replace("done:\n", "done:\n  call void @elsewhere()\n") + "declare void @elsewhere()\n"
    with pytest.raises(LinkError, match="undefined symbol: elsewhere"):
        link(with_lld, engine.compile(ir))


def test_damaged_objects(objects: dict[Sample, bytes]) -> None:
    """Truncated or overwritten objects give a code object or a typed error, never another exception."""
    generator = random.Random(1)
    survivors = 0
    for obj in list(objects.values())[:6]:
        for _ in range(150):
            damaged = bytearray(obj[: generator.randrange(len(obj))] if generator.random() < 0.3 else obj)
            for _ in range(generator.randrange(1, 4)):
                if damaged:
                    damaged[generator.randrange(len(damaged))] = generator.randrange(256)
            try:
                link_object(bytes(damaged), OWN_LINKER)
            except (UnsupportedObjectError, CodeObjectError):
                continue
            survivors += 1
    assert survivors > 0


def test_hash_functions() -> None:
    """The string hashes give the published values for `printf`; rows of a bucket stand together."""
    assert sysv_hash("printf") == 0x077905A6
    assert gnu_hash("printf") == 0x156B2BB8
    names = [f"name_{index}" for index in range(40)]
    buckets = [gnu_hash(name) % 10 for name in gnu_order(names)]
    assert buckets == sorted(buckets)
    assert sorted(gnu_order(names)) == sorted(names)
