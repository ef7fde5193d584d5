"""Run what a builder wrote on this machine: the oracle of IR semantics is LLVM's code generation for the host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm

from aot.ir.builder import Builder
from aot.ir.types import I32, Type
from aot.ir.values import Value

PTR = Type("ptr", 64)


def on_host(program: Callable[[Builder, list[Value]], Sequence[Value]], inputs: Sequence[int]) -> list[int]:
    """The i32 results of a program of i32 inputs, unsigned. Every input is a value that the builder cannot know."""
    b = Builder()
    loaded = []
    for index in range(len(inputs)):
        place = b.effect(PTR, f"getelementptr i32, ptr %in, i64 {index}")
        loaded.append(b.load(I32, place, 4))
    results = list(program(b, loaded))
    for index, result in enumerate(results):
        place = b.effect(PTR, f"getelementptr i32, ptr %out, i64 {index}")
        b.store(b.zext(result, I32), place, 4)
    b.line("ret void")
    body = "\n".join(f"{block.label}:\n" + "\n".join(block.lines) for block in b.blocks)
    text = "\n".join([*b.declarations.values(), f"define void @program(ptr %in, ptr %out) {{\n{body}\n}}"])
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    with llvm.create_mcjit_compiler(parsed, machine) as engine:
        engine.finalize_object()
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("program"))
        source = (ctypes.c_uint32 * max(1, len(inputs)))(*(number & 0xFFFFFFFF for number in inputs))
        target = (ctypes.c_uint32 * max(1, len(results)))()
        function(ctypes.addressof(source), ctypes.addressof(target))
        return list(target)[: len(results)]
