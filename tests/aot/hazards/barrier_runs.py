"""Runs a changed kernel of a cache on its edge problems, and on longer ones whose K loop goes round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from aot.families import family_of
from aot.runtime.emulator_device import EmulatorDevice
from aot.runtime.plan import make_plan
from aot.verification.edge_case import EdgeCase
from aot.verification.kernel_cases import Launcher, kernel_cases
from aot.verification.run_case import run_case
from cache_schema.cache_reader import Cache, Entry
from cache_schema.errors import DeliveryError
from cache_schema.label import encode
from tests.aot.hazards.removals import Subject

#: Wave-instructions after which a run is given up.
BUDGET = 20_000_000
#: The extent that the K loop runs over, and how often it is taken.
_LONGER = {"fwd": ("c", 4), "dgrad": ("k", 4), "wgrad": ("n", 8)}


def symptom(cache: Cache, entry: Entry, code: bytes) -> str:
    """What is wrong with a code object in the place of an entry's; empty if nothing is."""
    devices = (EmulatorDevice(seed=1, budget=BUDGET), EmulatorDevice(seed=2, budget=BUDGET))
    launcher = Launcher(cache)

    def provide(digest: str) -> bytes:
        return code if digest == entry.blob_digest else launcher.code(digest)

    try:
        for case in _cases(entry, launcher):
            plan = make_plan(entry, case.problem, launcher.options(entry, case))
            result = run_case(case, plan, devices, provide, seed=1)
            if result.failure:
                return result.failure
    except DeliveryError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _cases(entry: Entry, launcher: Launcher) -> Iterator[EdgeCase]:
    cases = [case for _, case in kernel_cases([entry], None, launcher)]
    yield from cases
    longest = max(cases, key=lambda case: case.problem.n * case.problem.c * case.problem.k)
    name, times = _LONGER[entry.identity.direction]
    problem = longest.problem
    if name != "n" and problem.groups != 1:
        return
    longer = replace(problem, **{name: getattr(problem, name) * times})
    # One slice, so that it has many tiles.
    yield replace(longest, name="longer", problem=longer, repeat=True, degree=1 if name == "n" else longest.degree)


def subjects(path: Path, every: int = 1) -> Iterator[Subject]:
    """Every Nth kernel of a cache; second steps are left out."""
    with Cache.open(path) as cache:
        for number in range(0, len(cache), every):
            entry = cache.entry(number)
            if family_of(entry.identity).alone:
                code = cache.code_object(number)
                yield Subject(encode(entry.identity), code, entry.block_size, partial(symptom, cache, entry))
