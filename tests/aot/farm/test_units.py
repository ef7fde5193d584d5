"""The unit on real kernels: what it gives without any farm around it."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from aot.farm.results import Chunk, Compiled, Emission, Failure
from aot.farm.selection import GridScope, select
from aot.farm.units import build_chunk
from aot.toolchain import Toolchain, find_toolchain, link, read_code_object, symbol_of
from cache_schema.identity import Identity
from cache_schema.table import IdentityTable
from grids.families.implicit_gemm import ImplicitGemm
from tests.cache_schema.records import Alpha


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return find_toolchain()


@pytest.fixture(scope="module")
def identity() -> Identity:
    """A small kernel with a direct-to-LDS loop, whose load widths do not change the code."""
    table = select(GridScope("gfx950", ("fwd",)), "bf16").table
    rows = table.equals("async_dma", True) & (table.wide("tile_m") == 64) & (table.wide("tile_n") == 64)
    rows &= (table.wide("vector_size_a") == 8) & (table.wide("vector_size_c") == 8) & (table.wide("tile_k") == 64)
    return table.take(rows).row(0)


def _chunk(toolchain: Toolchain, *identities: Identity) -> Chunk:
    return Chunk(tuple(range(100, 100 + len(identities))), IdentityTable.from_identities(identities), toolchain)


def test_a_kernel_with_its_facts(toolchain: Toolchain, identity: Identity) -> None:
    """The symbol follows from the key, and block size and argument bytes are those that the code object declares."""
    ((row, result),) = build_chunk(_chunk(toolchain, identity))
    assert row == 100
    assert isinstance(result.made, Compiled)
    assert result.emission is not None
    described = read_code_object(result.made.code)
    assert described.symbol == symbol_of(result.emission.key.hex())
    assert described.max_flat_workgroup_size == result.emission.block_size
    assert described.kernarg_bytes >= result.emission.arguments.size
    assert result.made.facts.lds_bytes == described.lds_bytes > 0
    assert all(seconds >= 0 for seconds in result.seconds.values())
    assert min(result.seconds[stage] for stage in ("emission", "codegen", "link", "read")) > 0


def test_it_is_a_pure_function_of_data(toolchain: Toolchain, identity: Identity) -> None:
    """Chunk and results survive pickling, and two calls give the same bytes."""
    chunk = _chunk(toolchain, identity)
    first = list(build_chunk(chunk))
    second = list(build_chunk(pickle.loads(pickle.dumps(chunk))))  # noqa: S301 - our own data
    assert [result.made for _, result in pickle.loads(pickle.dumps(first))] == [result.made for _, result in second]  # noqa: S301


def test_aliases_are_compiled_once(toolchain: Toolchain, identity: ImplicitGemm) -> None:
    """On its own, a chunk compiles a key for the first row that has it and leaves the others to that."""
    aliases = [replace(identity, vector_size_a=width, vector_size_b=width) for width in (8, 4, 2, 1)]
    results = [result for _, result in build_chunk(_chunk(toolchain, *aliases))]
    assert len({result.emission.key for result in results if result.emission}) == 1
    assert [result.made is None for result in results] == [False, True, True, True]


def test_a_refused_claim_is_not_compiled(toolchain: Toolchain, identity: Identity) -> None:
    """Whoever decides about claims sees the row and the key, and a no leaves the emission as the result."""
    seen: list[tuple[int, Emission]] = []

    def refuse(row: int, emission: Emission) -> bool:
        seen.append((row, emission))
        return False

    ((row, result),) = build_chunk(_chunk(toolchain, identity), refuse)
    assert result.made is None
    assert seen == [(row, result.emission)]
    assert result.seconds["codegen"] == 0


def test_a_broken_contract_is_a_failure(
    toolchain: Toolchain, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A code object that loaders would refuse is no result: the kernel fails with the name of the requirement."""

    def link_as_version_6(chosen: Toolchain, obj: bytes) -> bytes:
        code = link(chosen, obj)
        return code[:8] + b"\x04" + code[9:]

    monkeypatch.setattr("aot.farm.units.link", link_as_version_6)
    ((_, result),) = build_chunk(_chunk(toolchain, identity))
    assert isinstance(result.made, Failure)
    assert result.made.stage == "read"
    assert result.made.message.startswith("LoaderContractError: ABI version: ABI version 4; required by ROCr, clr: ")


def test_a_failure_is_a_result(toolchain: Toolchain, identity: Identity) -> None:
    """What cannot be emitted fails with its stage and one line, and the rest of the chunk goes on."""
    impossible = Alpha("gfx950", "bf16", "bf16", "bf16")  # of a family that no half here has
    results = [result for _, result in build_chunk(_chunk(toolchain, impossible, identity))]
    assert isinstance(results[0].made, Failure)
    assert results[0].made.stage == "emission"
    assert "alpha" in results[0].made.message
    assert "\n" not in results[0].made.message
    assert isinstance(results[1].made, Compiled)


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (None, "cannot run"),
        ("kill -9 $$", "was ended by SIGKILL"),
        ("echo LLVM ERROR: out of memory >&2; exit 1", "out of memory"),
        ("echo error: no such intrinsic >&2; exit 1", "no such intrinsic"),
        ("kill -SEGV $$", "failed"),
    ],
)
def test_faults_of_the_machine_are_told_apart(
    toolchain: Toolchain, identity: Identity, tool: str | None, message: str, tmp_path: Path
) -> None:
    """A compiler that is away, is killed or lacks memory is not about the kernel; one that refuses or crashes is."""
    clang = tmp_path / "clang"
    if tool:
        clang.write_text(f"#!/bin/sh\n{tool}\n")
        clang.chmod(0o755)
    other = replace(toolchain, engine="clang", engines=("clang",), clang=clang)
    ((_, result),) = build_chunk(_chunk(other, identity))
    assert isinstance(result.made, Failure)
    assert message in result.made.message
    assert result.made.passing is (message not in ("no such intrinsic", "failed"))


def test_too_little_memory_for_the_compiler(toolchain: Toolchain, identity: Identity, tmp_path: Path) -> None:
    """Where LLVM does not fit, the reason is memory, and the kernel is not to blame."""
    (tmp_path / "chunk").write_bytes(pickle.dumps(_chunk(toolchain, identity)))
    script = f"""
        import pickle, resource
        from pathlib import Path
        from aot.farm.units import build_chunk
        resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))
        ((_, result),) = build_chunk(pickle.loads(Path({str(tmp_path / "chunk")!r}).read_bytes()))
        print(result.made.passing, result.made.message)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert done.stdout.startswith("True MachineError: too little memory to load ")
