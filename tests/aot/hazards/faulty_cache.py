"""Caches whose kernels lack something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from aot.emulator.decode.known import decode_code
from aot.farm.results import Chunk, Compiled, UnitResult
from aot.farm.units import build_chunk
from aot.toolchain import Toolchain, code_object
from cache_schema.identity import Identity
from tests.aot import small_cache
from tests.aot.hazards.removals import patched


def without_first_wait(path: Path, toolchain: Toolchain, identities: Sequence[Identity]) -> Path:
    """A cache of kernels that do not wait for their arguments."""

    def build(chunk: Chunk) -> Iterator[tuple[int, UnitResult]]:
        for row, result in build_chunk(chunk):
            assert isinstance(result.made, Compiled), result.made
            yield row, replace(result, made=_faulty(result.made))

    with patch.object(small_cache, "build_chunk", build):
        return small_cache.write_small_cache(path, toolchain, identities)


def _faulty(made: Compiled) -> Compiled:
    program = decode_code(code_object.read(made.code), made.code)
    first = next(i for i in program.instructions if i.form.name == "s_waitcnt")
    return replace(made, code=patched(made.code, first))
