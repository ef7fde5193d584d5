"""A whole module of LLVM IR text around one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aot.ir.builder import Builder
from aot.ir.lds import LdsPool
from aot.ir.types import CONSTANT_PTR, GLOBAL_PTR, I32, I64, Type
from aot.ir.values import Value
from cache_schema.arguments import Argument, ArgumentList

#: Kernel name in the text. The symbol of the code object is derived from the content key, so the text must not have it.
KERNEL_PLACEHOLDER = "rocke_kernel"

#: What the amdgpu-attributor pass would find out: the kernel uses none of these implicit inputs.
_UNUSED_INPUTS = (
    "cluster-id-x", "cluster-id-y", "cluster-id-z", "completion-action", "default-queue", "dispatch-id",
    "dispatch-ptr", "flat-scratch-init", "heap-ptr", "hostcall-ptr", "implicitarg-ptr", "lds-kernel-id",
    "multigrid-sync-arg", "queue-ptr", "workitem-id-y", "workitem-id-z",
)  # fmt: skip

#: Version 5, times a hundred. Loaders before ROCm 6.3 refuse 6, which adds nothing for these targets.
_CODE_OBJECT_VERSION = 500

_KINDS: Mapping[str, Type] = {"ptr": GLOBAL_PTR, "i32": I32, "u32": I32, "i64": I64}


def kernel_arguments(b: Builder) -> Value:
    """The argument segment."""
    intrinsic = "llvm.amdgcn.kernarg.segment.ptr"
    b.declare(intrinsic, CONSTANT_PTR, "")
    return b.pure(CONSTANT_PTR, f"call align 16 {CONSTANT_PTR} @{intrinsic}()")


class KernelArguments(Mapping[str, Value]):
    """Kernel arguments by name, each loaded from the argument segment where it is first used.

    The parameters of the function itself stay unused: they would all be loaded at its entry, and the scalar registers
    of one branch would be full of what only the other needs. `segment` is where the arguments are, if not where they
    always are.
    """

    def __init__(self, b: Builder, arguments: ArgumentList, segment: Value | None = None) -> None:
        self.b, self.kinds = b, {argument.name: argument.kind for argument in arguments.arguments}
        self.offsets = arguments.offsets
        self._segment = segment
        self._invariant = b.metadata_node("!{}")

    def __getitem__(self, name: str) -> Value:
        b, type_, offset = self.b, _KINDS[self.kinds[name]], self.offsets[name]
        segment = kernel_arguments(b) if self._segment is None else self._segment
        place = b.pure(CONSTANT_PTR, f"getelementptr inbounds i8, {segment}, i32 {offset}")
        return b.pure(type_, f"load {type_}, {place}, align {type_.bytes}, !invariant.load {self._invariant}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)


def render(
    b: Builder,
    lds: LdsPool,
    arguments: ArgumentList,
    *,
    threads: int,
    workgroup_axes: str = "xyz",
    pointer_tags: Mapping[str, str],
    attributes: Mapping[str, str],
) -> str:
    """The module, without target lines.

    `pointer_tags` are `readonly` or `writeonly` by argument name; workgroup axes not named are declared unused.
    """
    b.line("ret void")

    def parameter(argument: Argument) -> str:
        if argument.kind != "ptr":
            return f"{_KINDS[argument.kind]} noundef %{argument.name}"
        return f"{GLOBAL_PTR} noalias noundef {pointer_tags.get(argument.name, '')} align 16 %{argument.name}"

    unused = [*_UNUSED_INPUTS, *(f"workgroup-id-{axis}" for axis in "xyz" if axis not in workgroup_axes)]
    function_attributes = {
        "amdgpu-flat-work-group-size": f"{threads},{threads}",
        "uniform-work-group-size": "true",
        **attributes,
    }
    spelled = [f'"amdgpu-no-{name}"' for name in unused]
    spelled += [f'"{name}"="{value}"' if value else f'"{name}"' for name, value in sorted(function_attributes.items())]
    version = b.metadata_node(f'!{{i32 1, !"amdhsa_code_object_version", i32 {_CODE_OBJECT_VERSION}}}')
    body = "\n".join(f"{block.label}:\n" + "\n".join(f"  {line}" for line in block.lines) for block in b.blocks)
    parts = [
        lds.declaration() if lds.size else "",
        f"define amdgpu_kernel void @{KERNEL_PLACEHOLDER}({', '.join(map(parameter, arguments.arguments))}) #0 {{",
        body,
        "}",
        *(b.declarations[name] for name in sorted(b.declarations)),
        f"attributes #0 = {{ norecurse nounwind {' '.join(spelled)} }}",
        f"!llvm.module.flags = !{{{version}}}",
        *(f"!{index} = {node}" for index, node in enumerate(b.metadata)),
    ]
    return "\n".join(part for part in parts if part) + "\n"
