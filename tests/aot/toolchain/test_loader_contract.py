"""The loader contract: what we ship keeps it, and every requirement finds what breaks it."""

from __future__ import annotations

import importlib
import random
from dataclasses import replace

import pytest

from aot.families import emit
from aot.toolchain import Toolchain, elf, open_engine
from aot.toolchain.errors import LoaderContractError
from aot.toolchain.link import link_with_lld
from aot.toolchain.linker import link_object
from aot.toolchain.loader_contract import REQUIREMENTS, Expected, check_loader_contract, violations
from tests.aot.samples import QUICK
from tests.aot.toolchain.planted import PLANTS, Planted
from tests.needs import lacking


@pytest.fixture(scope="module")
def sound(toolchain: Toolchain) -> Planted:
    """A small kernel that is as it should be."""
    source = emit(QUICK, toolchain.flavor)
    obj = open_engine(toolchain, QUICK.arch, source.codegen_options).compile(source.ir, source.passes)
    expected = Expected(QUICK.arch, "rocke_kernel", source.arguments, source.block_size)
    return Planted(obj, link_object(obj, toolchain.linker_version), expected)


def broken(planted: Planted) -> list[str]:
    return [violation.requirement.name for violation in violations(planted.code, planted.expected)]


def test_a_sound_kernel_breaks_nothing(sound: Planted) -> None:
    """The kernel that is planted into keeps the contract, and so does it after being linked again unchanged."""
    assert broken(sound) == []
    assert broken(sound.metadata(lambda _: None)) == []


def test_every_requirement_has_a_plant() -> None:
    """No two requirements share a name, and none is there that nothing can break."""
    names = [requirement.name for requirement in REQUIREMENTS]
    assert len(set(names)) == len(names)
    assert set(names) == set(PLANTS)


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_found(sound: Planted, name: str) -> None:
    """A code object that breaks a requirement is refused under the requirement's name."""
    planted = PLANTS[name](sound)
    found = broken(planted)
    assert name in found
    with pytest.raises(LoaderContractError) as error:
        check_loader_contract(planted.code, planted.expected)
    assert str(error.value).startswith(f"{found[0]}: ")
    assert "\n" not in str(error.value)


def test_stripped_objects_are_refused(sound: Planted, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    """What --strip-all leaves, which no loader takes, breaks the requirements of both symbol tables."""
    if not toolchain.linker:
        lacking("ld.lld")
    linking = importlib.import_module("aot.toolchain.link")
    monkeypatch.setattr(linking, "LLD_FLAGS", ("-shared", "--no-undefined", "--strip-all"))
    found = broken(replace(sound, code=link_with_lld(toolchain, sound.obj)))
    assert {"section .symtab", "section .strtab"} <= set(found)


def test_sections_that_are_loaded_in_part_are_refused(sound: Planted) -> None:
    """A segment with room for its sections, but with fewer bytes of the file, leaves zeros where the descriptor is."""
    assert broken(sound.segment(elf.PT_LOAD, 0, file_bytes=lambda old: old - 8))[0] == "sections in segments"


def test_other_kernels_are_refused(sound: Planted) -> None:
    """The object of one kernel is not that of another: neither its name, nor its block, nor its architecture."""
    assert "kernel symbol" in broken(sound.expecting(symbol="rocke_other"))
    assert "block" in broken(sound.expecting(block_size=128))
    assert "target" in broken(sound.expecting(arch="gfx942"))


def test_damage_is_named(sound: Planted) -> None:
    """Any truncation breaks a requirement; any overwritten bytes give violations or none, never an exception."""
    for length in range(0, len(sound.code), 61):
        assert broken(replace(sound, code=sound.code[:length])), length
    generator = random.Random(3)
    for _ in range(2000):
        damaged = bytearray(sound.code)
        for _ in range(generator.randrange(1, 5)):
            damaged[generator.randrange(len(damaged))] = generator.choice((0, 1, 0x7F, 0xFF, generator.randrange(256)))
        broken(replace(sound, code=bytes(damaged)))


def test_absurd_numbers_are_named(sound: Planted) -> None:
    """A count of four billion in any record breaks a requirement, without taking memory for so many things."""
    for name in (".symtab", ".dynsym"):
        assert "symbol tables" in broken(sound.section(name, info=lambda _: 2**32 - 1))
    assert "segment bytes" in broken(sound.segment(elf.PT_LOAD, 0, memory_bytes=lambda _: 2**63))
    assert broken(sound.header(shnum=lambda _: 0xFFFF))
    assert broken(sound.section(".note", size=lambda _: 2**62))
