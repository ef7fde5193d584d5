"""Hand-written kernels that vary what compilers and linkers care about: size, loops, LDS, constants, names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_MFMA = "llvm.amdgcn.mfma.f32.16x16x16f16"
_BUFFERS = "ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %c"
_ATTRIBUTES = '"uniform-work-group-size"="true" "amdgpu-flat-work-group-size"="256,256" ' + " ".join(
    f'"amdgpu-no-{feature}"'
    for feature in (
        *("completion-action", "default-queue", "dispatch-id", "dispatch-ptr", "flat-scratch-init", "heap-ptr"),
        *("hostcall-ptr", "implicitarg-ptr", "lds-kernel-id", "multigrid-sync-arg", "queue-ptr", "workgroup-id-y"),
        *("workgroup-id-z", "workitem-id-y", "workitem-id-z"),
    )
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One kernel: `loads` unrolled steps, perhaps in a loop or through LDS, constant tables, spare arguments."""

    name: str
    arch: str = "gfx950"
    symbol: str = "rocke_kernel"
    loads: int = 1
    loop: bool = False
    lds_bytes: int = 0
    tables: tuple[int, ...] = ()
    mergeable_tables: bool = False
    spare_arguments: int = 0
    mfma: bool = True

    def ir(self) -> str:
        """Module text without data layout and triple, so it serves every LLVM."""
        spare = "".join(f", i32 %spare_{index}" for index in range(self.spare_arguments))
        body = self._loop() if self.loop else f"{self._steps('entry')}  br label %done\n"
        sections = (
            *self._globals(),
            f"define amdgpu_kernel void @{self.symbol}({_BUFFERS}, i32 %n{spare}) #0 {{",
            "entry:\n  %lane = call i32 @llvm.amdgcn.workitem.id.x()",
            "  %group = call i32 @llvm.amdgcn.workgroup.id.x()",
            "  %base = mul i32 %group, %n\n  %first = add i32 %base, %lane",
            f"{body}done:",
            *self._table_reads(),
            "  ret void\n}",
            "declare i32 @llvm.amdgcn.workitem.id.x()\ndeclare i32 @llvm.amdgcn.workgroup.id.x()",
            f"declare <4 x float> @{_MFMA}(<4 x half>, <4 x half>, <4 x float>, i32 immarg, i32 immarg, i32 immarg)",
            f'attributes #0 = {{ nounwind norecurse "target-cpu"="{self.arch}" {_ATTRIBUTES} }}',
            '!llvm.module.flags = !{!0}\n!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}',
        )
        return "\n".join(sections) + "\n"

    def _globals(self) -> Iterator[str]:
        if self.lds_bytes:
            yield f"@pool = internal addrspace(3) global [{self.lds_bytes} x i8] poison, align 16"
        unnamed = "unnamed_addr " if self.mergeable_tables else ""
        for index, words in enumerate(self.tables):
            values = ", ".join(f"i32 {(index + 3) * 1000003 * (word + 7) % 2**31}" for word in range(words))
            yield f"@table_{index} = internal {unnamed}addrspace(4) constant [{words} x i32] [{values}], align 16"

    def _steps(self, tag: str, index: str = "%first") -> str:
        """Load, multiply, store; the LDS part goes through shared memory between load and store."""
        lines = []
        for step in range(self.loads):
            at, value = f"{tag}_{step}", f"%{tag}_{step}_v"
            lines += [
                f"  %{at}_i = add i32 {index}, {step * 64}",
                f"  %{at}_w = zext i32 %{at}_i to i64",
                f"  %{at}_p = getelementptr <4 x half>, ptr addrspace(1) %a, i64 %{at}_w",
                f"  {value} = load <4 x half>, ptr addrspace(1) %{at}_p, align 8",
            ]
            if self.lds_bytes:
                lines += [
                    f"  %{at}_s = getelementptr <4 x half>, ptr addrspace(3) @pool, i32 %lane",
                    f"  store <4 x half> {value}, ptr addrspace(3) %{at}_s, align 8",
                    f"  %{at}_x = xor i32 %lane, {1 + step % 3}",
                    f"  %{at}_t = getelementptr <4 x half>, ptr addrspace(3) @pool, i32 %{at}_x",
                    f"  %{at}_l = load <4 x half>, ptr addrspace(3) %{at}_t, align 8",
                ]
                value = f"%{at}_l"
            if self.mfma:
                lines.append(
                    f"  %{at}_m = call <4 x float> @{_MFMA}(<4 x half> {value}, <4 x half> {value},"
                    " <4 x float> zeroinitializer, i32 0, i32 0, i32 0)"
                )
            else:
                lines.append(f"  %{at}_m = fpext <4 x half> {value} to <4 x float>")
            lines += [
                f"  %{at}_q = getelementptr <4 x float>, ptr addrspace(1) %c, i64 %{at}_w",
                f"  store <4 x float> %{at}_m, ptr addrspace(1) %{at}_q, align 16",
            ]
        return "\n".join(lines) + "\n"

    def _loop(self) -> str:
        return (
            "  br label %loop\nloop:\n  %k = phi i32 [ 0, %entry ], [ %next, %loop ]\n"
            "  %row = mul i32 %k, 192\n  %where = add i32 %first, %row\n"
            f"{self._steps('loop', '%where')}"
            "  %next = add nuw nsw i32 %k, 1\n  %more = icmp slt i32 %next, %n\n"
            "  br i1 %more, label %loop, label %done\n"
        )

    def _table_reads(self) -> Iterator[str]:
        for index, words in enumerate(self.tables):
            yield f"  %row_{index} = urem i32 %lane, {words}"
            yield f"  %at_{index} = getelementptr i32, ptr addrspace(4) @table_{index}, i32 %row_{index}"
            yield f"  %read_{index} = load i32, ptr addrspace(4) %at_{index}"
            yield f"  %out_{index} = getelementptr i32, ptr addrspace(1) %c, i32 %lane"
            yield f"  store volatile i32 %read_{index}, ptr addrspace(1) %out_{index}"


def samples(arch: str = "gfx950") -> list[Sample]:
    """A varied set for one architecture. Names and argument counts move .rodata over page and granule boundaries."""
    found = [
        Sample("plain", arch),
        Sample("no mfma", arch, mfma=False),
        Sample("long", arch, loads=24),
        Sample("longer than a page", arch, loads=96),
        Sample("loop", arch, loads=2, loop=True),
        Sample("loop with lds", arch, loads=4, loop=True, lds_bytes=16384),
        Sample("lds", arch, lds_bytes=4096),
        Sample("table", arch, tables=(5,)),
        Sample("tables", arch, tables=(5, 33, 1000)),
        Sample("mergeable tables", arch, tables=(4, 8), mergeable_tables=True),
        Sample("tables of both kinds of size", arch, tables=(4, 8, 9), mergeable_tables=True),
        Sample("many arguments", arch, spare_arguments=40),
    ]
    found += [Sample(f"symbol {size}", arch, symbol="rocke_" + "x" * size) for size in (0, 1, 7, 24, 200)]
    # The metadata grows by about 60 bytes per argument: some of these end .rodata exactly on a page.
    found += [Sample(f"{count} arguments", arch, spare_arguments=count, tables=(3,)) for count in range(50, 66, 3)]
    return found
