"""Every command on caches with right checksums and wrong content: one line, exit code 1 or 2, in bounded time."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aot.cli.main import run
from aot.toolchain import Toolchain
from cache_schema.cache_reader import Cache
from cache_schema.cache_writer import write_cache
from cache_schema.digest import identity_digest
from cache_schema.facts import RESOURCES, EntryFacts, KernelFacts
from cache_schema.identity import schema_of
from cache_schema.ledger import Ledger
from cache_schema.table import IdentityTable
from tests.aot.dgrad_kernels import dgrad
from tests.aot.kernels.wgrad_machine import wgrad
from tests.aot.samples import QUICK, SHUFFLED, fix_up_identity, reduce_identity
from tests.aot.small_cache import write_small_cache
from tests.cache_schema.hostile import Parts, mutations
from tests.cache_schema.test_cache_hostile import bounded

SMALL = {"tile_m": 16, "tile_n": 32, "warp_m": 1, "warp_n": 1}
KERNELS = [
    QUICK,
    SHUFFLED,
    dgrad(),
    wgrad(split_k=2, two_stage=True, ws_replicas=8, **SMALL),
    wgrad(stream_k=True, **SMALL),
    reduce_identity("gfx950", "bf16", 8),
    fix_up_identity("gfx950", "bf16"),
]
PROBLEM = "n=1 c=8 h=4 w=4 k=8 y=1 x=1 direction="
DIRECTIONS = ("fwd", "dgrad", "wgrad")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, local_toolchain: Toolchain) -> Path:
    """A kernel of every kind."""
    return write_small_cache(tmp_path_factory.mktemp("good") / "gfx950-bf16.rocke", local_toolchain, KERNELS)


@pytest.fixture(scope="module")
def commands(good: Path) -> list[list[str]]:
    """What is asked of a cache, without its name."""
    with Cache.open(good) as cache:
        digests = [bytes(digest).hex() for digest in cache.digests]
    problems = [f"{PROBLEM}{direction}" for direction in DIRECTIONS]
    return [
        ["inspect"],
        *(["inspect", "--identity", digest[:12]] for digest in digests),
        *(["inspect", "--identity", digest, "--why"] for digest in digests),
        *(["inspect", "--problem", problem, "--why"] for problem in problems),
        *(["plan", "--problem", problem] for problem in problems),
        *(["plan", "--problem", problems[2], "--identity", digest[:12]] for digest in digests),
        *(["verify", "--jobs", "1", "--problem", problem] for problem in problems),
        ["verify", "--jobs", "1", "--sample", "1"],
    ]


def outcome(path: Path, command: list[str]) -> tuple[int, str]:
    """Exit code and stderr of one command; anything that is raised is a fault."""
    out, told = io.StringIO(), io.StringIO()
    with bounded(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        code = run([command[0], str(path), *command[1:], "--json"])
    return code, told.getvalue()


def trial(parts: Parts, path: Path, command: list[str]) -> None:
    """One command on one file."""
    path.write_bytes(parts.sealed())
    code, told = outcome(path, command)
    assert code in (0, 1, 2)
    assert len(told.splitlines()) <= 1, told


def test_sound_caches_answer(good: Path, commands: list[list[str]]) -> None:
    """The commands work on the cache that is going to be changed."""
    for command in commands:
        code, told = outcome(good, command)
        # A second step has no plan, and so no problem.
        assert code == 0 or "S_step" in told or "does not serve" in told, (command, told)


def _swap_arguments(parts: Parts) -> None:
    for layout in parts.directory["layouts"]:
        layout[0][0], layout[1][0] = layout[1][0], layout[0][0]


def _symbol(parts: Parts) -> None:
    parts.directory["symbol"][0] = "other_"


def _raise(column: str, step: int) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        parts.spread("kernel", column)[:] += np.uint64(step)

    return change


@pytest.mark.parametrize(
    ("lie", "fact"),
    [
        (_raise("block_size", 64), "block"),
        (_raise("lds_bytes", 16), "LDS"),
        (_raise("scratch_bytes", 16), "scratch"),
        (_raise("vgprs", 1), "VGPRs"),
        (_raise("agprs", 1), "AGPRs"),
        (_raise("sgprs", 1), "SGPRs"),
        (_raise("vgpr_spills", 1), "spills"),
        (_symbol, "symbol"),
        (_swap_arguments, "arguments"),
    ],
)
def test_facts_are_those_of_the_code(lie: Callable[[Parts], None], fact: str, good: Path, tmp_path: Path) -> None:
    """Whoever loads a code object is told what the index says wrongly of it: a launch would follow the index."""
    parts = Parts.of(good.read_bytes())
    lie(parts)
    path = tmp_path / "c.rocke"
    path.write_bytes(parts.sealed())
    quick = identity_digest(KERNELS[0]).hex()
    problem = ["--problem", PROBLEM + "fwd"]
    for command in (["plan", *problem], ["inspect", "--identity", quick]):
        code, told = outcome(path, command)
        assert (code, f"wrong about {fact} of" in told) == (1, True), told
    assert outcome(path, ["verify", "--jobs", "1", *problem])[0] == 1


QUICKLY = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@QUICKLY
@given(data=st.data())
def test_any_field_may_lie(good: Path, commands: list[list[str]], tmp_path: Path, data: st.DataObject) -> None:
    """Whatever one field of the file says, each command ends as commands end."""
    parts = data.draw(mutations(Parts.of(good.read_bytes())))
    trial(parts, tmp_path / "c.rocke", data.draw(st.sampled_from(commands)))


#: What integers and words of an identity are replaced by, as far as a reader lets them pass.
INTEGERS = (0, 1, 2, 3, 5, 7, 16, 31, 48, 64, 255, 256, 1000, 4096)
WORDS = ("", "fwd", "dgrad", "wgrad", "implicit_gemm", "fp32", "fp16",
    "mem", "compv4", "wavelet", "cshuffle", "default", "x y", '{"a":1}', "é")  # fmt: skip


def renamed(good: Path, path: Path, kernel: int, changes: dict[str, object]) -> None:
    """Write a cache in which one code object stands under another identity, with everything else in order."""
    identities = list(KERNELS)
    identities[kernel] = replace(identities[kernel], **changes)  # type: ignore[arg-type]
    with Cache.open(good) as cache:
        entries = [cache.entry(number) for number in map(cache.find_identity, KERNELS) if number is not None]
        blobs = {cache.kernels.at("blob_digest", k): cache.kernel_code(k) for k in range(cache.kernels.rows)}
        names = ("content_key", "blob_digest", "symbol", "arguments", *RESOURCES[:-2])
        facts = [KernelFacts(**{name: getattr(entry, name) for name in names}) for entry in entries]
        write_cache(
            path,
            arch=cache.arch,
            dtype=cache.dtype,
            table=IdentityTable.from_identities(identities),
            facts=EntryFacts.from_entries(facts),
            blobs=blobs.__getitem__,
            ledger=Ledger.empty(),
            provenance={},
        )


@settings(QUICKLY, max_examples=80)
@given(data=st.data())
def test_any_identity_may_lie(good: Path, tmp_path: Path, data: st.DataObject) -> None:
    """A kernel may stand under any name, its digest included: what it would be then is planned, run or refused."""
    kernel = data.draw(st.integers(0, len(KERNELS) - 1))
    changes = {}
    for field in data.draw(st.lists(st.sampled_from(schema_of(KERNELS[kernel]).fields[1:]), min_size=1, max_size=3)):
        values = {"bool": (False, True), "int": INTEGERS, "str": WORDS}[field.kind]
        changes[field.name] = data.draw(st.sampled_from(values))
    path = tmp_path / "c.rocke"
    try:
        renamed(good, path, kernel, changes)
    except ValueError:  # an identity twice, or of another data type: no file
        return
    problem = PROBLEM + data.draw(st.sampled_from(DIRECTIONS))
    for command in (["inspect"], ["inspect", "--problem", problem, "--why"], ["plan", "--problem", problem]):
        code, told = outcome(path, command)
        assert code in (0, 1, 2)
        assert len(told.splitlines()) <= 1, told


@pytest.mark.full
@settings(QUICKLY, max_examples=10_000, derandomize=False)
@given(data=st.data())
def test_any_field_may_lie_at_length(
    good: Path, commands: list[list[str]], tmp_path: Path, data: st.DataObject
) -> None:
    """The same with other fields every time."""
    parts = data.draw(mutations(Parts.of(good.read_bytes())))
    trial(parts, tmp_path / "c.rocke", data.draw(st.sampled_from(commands)))
