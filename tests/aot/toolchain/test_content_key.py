"""The key of a kernel's bytes, and the symbol made of it."""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass

import pytest

from aot.toolchain import Engine, Toolchain, content_key, link, read_code_object, symbol_of, with_symbol
from aot.toolchain.errors import CompileError
from tests.aot.toolchain.samples import Sample

content_key_module = importlib.import_module("aot.toolchain.content_key")


@dataclass(frozen=True)
class Source:
    ir: str
    codegen_options: tuple[str, ...] = ()
    passes: str = ""


SOURCE = Source(Sample("keyed").ir())


def test_everything_that_changes_code_changes_the_key(toolchain: Toolchain) -> None:
    """IR, options, passes, architecture and compiler bytes are in the key."""
    keys = [
        content_key(SOURCE, toolchain, "gfx950"),
        content_key(SOURCE, toolchain, "gfx942"),
        content_key(dataclasses.replace(SOURCE, ir=SOURCE.ir + "\n"), toolchain, "gfx950"),
        content_key(dataclasses.replace(SOURCE, codegen_options=("-disable-lsr",)), toolchain, "gfx950"),
        content_key(dataclasses.replace(SOURCE, passes="-disable-lsr"), toolchain, "gfx950"),
        content_key(SOURCE, dataclasses.replace(toolchain, compiler_digest="0" * 64), "gfx950"),
    ]
    assert len(set(keys)) == len(keys)


def test_how_it_is_linked_is_in_the_key(toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another way of linking is another kernel: code objects of the time before symbol tables are not taken again."""
    now = content_key(SOURCE, toolchain, "gfx950")
    monkeypatch.setattr(content_key_module, "LLD_FLAGS", ("-shared", "--no-undefined", "--strip-all"))
    assert content_key(SOURCE, toolchain, "gfx950") != now


def test_nothing_else_does(toolchain: Toolchain) -> None:
    """Paths, names and the order of options are not."""
    moved = dataclasses.replace(toolchain, name="x", chosen_because="y", clang=None, objdump=None)
    two = dataclasses.replace(SOURCE, codegen_options=("-disable-lsr", "-amdgpu-mfma-vgpr-form"))
    swapped = dataclasses.replace(two, codegen_options=two.codegen_options[::-1])
    assert content_key(SOURCE, moved, "gfx950") == content_key(SOURCE, toolchain, "gfx950")
    assert content_key(two, toolchain, "gfx950") == content_key(swapped, toolchain, "gfx950")


def test_symbol(toolchain: Toolchain, engine: Engine) -> None:
    """The kernel in the code object carries the symbol of its key."""
    symbol = symbol_of(content_key(SOURCE, toolchain, "gfx950"))
    assert len(symbol) == len("rocke_") + 24
    code = link(toolchain, engine.compile(with_symbol(SOURCE.ir, symbol)))
    assert read_code_object(code).symbol == symbol


def test_only_the_placeholder_is_renamed() -> None:
    """Other names that begin like the placeholder stay, and IR without it is refused."""
    ir = "define void @rocke_kernel() { call void @rocke_kernel_helper() call void @rocke_kernel.pool() }"
    assert with_symbol(ir, "x") == ir.replace("@rocke_kernel()", "@x()")
    with pytest.raises(CompileError, match="rocke_kernel"):
        with_symbol("define void @other() { ret void }", "x")
