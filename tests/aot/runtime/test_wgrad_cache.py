"""Backward-weights kernels of a cache on the command line: plans of two steps, degrees, limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aot.cli.main import run
from aot.toolchain import Toolchain
from cache_schema.cache_reader import Cache
from cache_schema.identity import Identity
from cache_schema.label import encode
from tests.aot.kernels.wgrad_machine import wgrad
from tests.aot.samples import fix_up_identity, reduce_identity
from tests.aot.small_cache import write_small_cache

SMALL = {"tile_m": 16, "tile_n": 32, "warp_m": 1, "warp_n": 1}
TWO_STAGE = wgrad(split_k=2, two_stage=True, ws_replicas=8, **SMALL)
STREAM_K = wgrad(stream_k=True, **SMALL)
KERNELS = [
    wgrad(**SMALL),
    wgrad(split_k=2, epilogue="cshuffle", vector_size_c=4, **SMALL),
    TWO_STAGE,
    STREAM_K,
    reduce_identity("gfx950", "bf16", 8),
    fix_up_identity("gfx950", "bf16"),
]
LONG = {"n": 64, "c": 8, "h": 28, "w": 28, "k": 8, "y": 3, "x": 3, "pad": 1}
FLAGS = ["--direction", "wgrad", *(word for name, value in LONG.items() for word in (f"--{name}", str(value)))]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, local_toolchain: Toolchain) -> Path:
    """One kernel of every kind, and the second steps."""
    return write_small_cache(tmp_path_factory.mktemp("wgrad") / "gfx950-bf16.rocke", local_toolchain, KERNELS)


def planned(capsys: pytest.CaptureFixture[str], cache: Path, *options: str) -> dict[str, Any]:
    """The plan that is printed."""
    assert run(["plan", str(cache), *FLAGS, *options, "--json"]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def launches(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps that launch a kernel."""
    return [step for step in plan["steps"] if step["kind"] == "launch"]


@pytest.mark.parametrize("identity", [TWO_STAGE, STREAM_K])
def test_second_steps_come_from_the_cache(
    capsys: pytest.CaptureFixture[str], cache: Path, identity: Identity, tmp_path: Path
) -> None:
    """Both kernels of a plan are found, and both code objects are written out."""
    label = encode(identity)
    plan = planned(capsys, cache, "--identity", label, "--extract", str(tmp_path))
    first, second = launches(plan)
    assert first["identity"] == label
    assert second["identity"].startswith(("wgrad:reduce:", "wgrad:fix_up:"))
    assert {file.stem for file in tmp_path.iterdir()} == {first["code_object"], second["code_object"]}


def test_long_reductions_are_split(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    """Where one workgroup would add up everything, the kernel that is chosen shares the work."""
    (launch, *_) = launches(planned(capsys, cache))
    assert launch["identity"].startswith(("wgrad:atomic:", "wgrad:two_stage:", "wgrad:stream_k:"))


def test_a_degree_asks_for_a_kernel_that_splits(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    """--split-k 5 never ends with a kernel that cannot."""
    (launch, *_) = launches(planned(capsys, cache, "--split-k", "5"))
    assert launch["grid"][2] == 5


def test_a_workspace_limit_leaves_kernels_without_one(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    """With no byte to spare neither two-stage nor stream-K kernels are chosen."""
    assert planned(capsys, cache, "--workspace-limit", "0")["workspace_bytes"] == 0


def test_second_steps_serve_nothing(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    """They are in the cache and are no candidates."""
    with Cache.open(cache) as opened:
        assert opened.find_identity(KERNELS[-1]) is not None
    assert run(["plan", str(cache), *FLAGS, "--identity", encode(KERNELS[-1])]) == 2
    assert "S_step" in capsys.readouterr().err
