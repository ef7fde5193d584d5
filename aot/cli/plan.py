"""`rocke-aot plan`: everything another program needs to launch a kernel of a cache."""

from __future__ import annotations

import json
from pathlib import Path

import click

from aot.cli.problem_options import ProblemRequest, problem_options
from aot.cli.tables import bytes_text, pairs, table
from aot.cli.values import named_file, named_path
from aot.inspection.candidates import best_candidate
from aot.inspection.load_code import load_code
from aot.inspection.resolve import resolve
from aot.runtime.accuracy import Demand
from aot.runtime.plan import empty_plan, make_plan, needs_no_kernel, require_buildable
from aot.runtime.plan_data import Fill, Launch, Plan
from aot.runtime.plan_options import AUTOMATIC_DEGREE, PlanOptions
from aot.runtime.problem_text import problem_text
from cache_schema.atomic_file import replace_file
from cache_schema.cache_reader import Cache, Entry
from cache_schema.errors import CacheError, RequestError
from cache_schema.identity import Identity
from cache_schema.label import encode
from cache_schema.problem import ConvProblem

CODE_OBJECT_SUFFIX = ".co"
ACCURACIES = ("default", "fast")


@click.command("plan")
@click.argument("path", metavar="CACHE", callback=named_file)
@click.option("--identity", metavar="LABEL|DIGEST", help="Use this kernel.  [default: the one with the best estimate]")
@click.option(
    "--split-k",
    type=click.IntRange(min=AUTOMATIC_DEGREE),
    default=AUTOMATIC_DEGREE,
    show_default=True,
    help="Slices of the reduction, for kernels that are told how many; -1 for the automatic number.",
)
@click.option("--workspace-limit", type=click.IntRange(min=0), metavar="BYTES", help="Refuse kernels that need more.")
@click.option(
    "--max-error",
    type=float,
    metavar="ULPS",
    help="Largest expected error of a result.  [default: twice that of the best kernel]",
)
@click.option("--deterministic", is_flag=True, help="Only plans that give equal bits in equal runs.")
@click.option(
    "--accuracy",
    type=click.Choice(ACCURACIES),
    default=ACCURACIES[0],
    show_default=True,
    help="fast: the best estimate, whatever its expected error.",
)
@click.option(
    "--extract", callback=named_path, metavar="DIR", help="Write the code objects there, named by their SHA-256."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@problem_options
def command(
    path: str,
    identity: str | None,
    split_k: int,
    workspace_limit: int | None,
    max_error: float | None,
    deterministic: bool,
    accuracy: str,
    extract: Path | None,
    as_json: bool,
    problem_request: ProblemRequest,
) -> None:
    """Print the launch plan of a problem: steps, grids, arguments, buffers, what to zero first, what to keep.

    It says how far results are expected to be off, in units of the last place (ulp) of the 16-bit result; one rounding
    is 0.29. By default no kernel is taken that is expected to be more than twice as wrong as the best that serves.

    \b
    Examples:
      rocke-aot plan CACHE --n 8 --c 64 --h 56 --w 56 --k 64 --y 3 --x 3 --pad 1
      rocke-aot plan CACHE --problem "convbfp16 -n 8 -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 -F 1" --extract out --json
    """
    demand = Demand(max_error, deterministic, fast=accuracy == "fast")
    with Cache.open(path) as cache:
        problem = problem_request.one(cache.dtype, cache.table.directions)

        def helper(wanted: Identity) -> Entry | None:
            number = cache.find_identity(wanted)
            return None if number is None else cache.entry(number)

        options = PlanOptions(split_k, workspace_limit, helper=helper, demand=demand)
        plan = _plan(cache, problem, identity, options)
        demand.require(plan.accuracy.expected_ulps, plan.deterministic)
        codes = {launch.code_object: _code(cache, launch) for launch in plan.launches}
        files = _extract(codes, extract) if extract is not None else {}
    if as_json:
        click.echo(json.dumps({**plan.to_json(), "code_object_files": files}, indent=2))
    else:
        click.echo(_text(plan, files))


def _plan(cache: Cache, problem: ConvProblem, identity: str | None, options: PlanOptions) -> Plan:
    if identity is None:
        if needs_no_kernel(problem):
            return empty_plan(cache.arch, problem)
        best = best_candidate(cache, problem, options.workspace_limit, options.demand, options.split_k)
        entry = cache.entry(best)
    else:
        wanted = resolve(cache, identity)
        number = cache.find_identity(wanted)
        if number is None:
            told = f"{cache.path} has no kernel for {encode(wanted)}"
            raise RequestError(f"{told}; `inspect --why` tells what became of it")
        entry = cache.entry(number)
    require_buildable(entry.identity)
    return make_plan(entry, problem, options)


def _code(cache: Cache, launch: Launch) -> bytes:
    """The code object of a launch: a plan is as good as what the index says of it."""
    number = cache.find(bytes.fromhex(launch.identity_digest))
    if number is None:
        raise CacheError(f"{cache.path}: digests do not ascend")
    return load_code(cache, number)


def _extract(codes: dict[str, bytes], folder: Path) -> dict[str, str]:
    """Write each code object of the plan once; the files by digest."""
    files = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for digest, code in codes.items():
            file = folder / f"{digest}{CODE_OBJECT_SUFFIX}"
            with replace_file(file) as written:
                written.write(code)
            files[digest] = str(file)
    except OSError as error:
        raise RequestError(f"cannot write code objects to {folder}: {error.strerror or error}") from error
    return files


def _text(plan: Plan, files: dict[str, str]) -> str:
    buffers = [
        (b.name, b.role, b.dtype, " x ".join(map(str, b.shape)), b.nbytes, "yes" if b.name in plan.zeroed else "")
        for b in plan.buffers
    ]
    sections = [
        f"{problem_text(plan.problem)} on {plan.arch}",
        pairs(
            [
                ("steps", len(plan.steps)),
                ("workspace", bytes_text(plan.workspace_bytes)),
                (
                    "expected error",
                    f"{plan.accuracy.expected_ulps:.3g} ulps, {plan.accuracy.random_ulps:.3g} if signs mix",
                ),
                ("worst error", f"{plan.accuracy.worst_ulps:.3g} ulps of the sum of all |terms|"),
                ("equal runs give equal bits", plan.deterministic),
                ("pointers", f"multiples of {plan.requirements.alignment_bytes} bytes; no two buffers overlap"),
                ("coarse-grained memory", ", ".join(plan.requirements.coarse_grained) or "not required"),
            ]
        ),
        "\nbuffers",
        table(("name", "role", "dtype", "shape", "bytes", "zero first"), buffers),
    ]
    for number, step in enumerate(plan.steps, 1):
        if isinstance(step, Fill):
            sections.append(f"\nstep {number}: fill buffer {step.buffer} with bytes {step.byte:#04x}")
        else:
            sections += [f"\nstep {number}: launch", _launch_text(step, files)]
    if not plan.steps:
        sections.append("\nnothing to do: the result is empty")
    return "\n".join(sections)


def _launch_text(launch: Launch, files: dict[str, str]) -> str:
    facts: list[tuple[str, object]] = [
        ("kernel", launch.identity),
        ("digest", launch.identity_digest),
        ("code object", launch.code_object),
    ]
    if launch.code_object in files:
        facts.append(("file", files[launch.code_object]))
    facts += [
        ("symbol", launch.symbol),
        ("grid", " x ".join(map(str, launch.grid)) + " workgroups"),
        ("block", " x ".join(map(str, launch.block)) + " threads"),
        ("dynamic LDS", f"{launch.dynamic_lds} bytes"),
        ("arguments", f"{launch.argument_list().size} bytes"),
    ]
    rows = [
        (a.offset, a.size, a.kind, a.name, f"address of {a.buffer}" if a.buffer is not None else str(a.value))
        for a in launch.arguments
    ]
    return pairs(facts) + "\n" + table(("offset", "size", "kind", "argument", "value"), rows, indent=4)
