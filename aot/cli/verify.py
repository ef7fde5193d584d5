"""`rocke-aot verify`: show that the kernels of a cache are right, by running them on the emulator."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from aot.cli import errors, values
from aot.cli.problem_options import ProblemRequest, problem_options
from aot.cli.tables import pairs, table
from aot.emulator.run import ENGINES
from aot.families import family_of
from aot.family import Offer
from aot.runtime.inputs import KINDS
from aot.runtime.plan_options import AUTOMATIC_DEGREE
from aot.verification.coverage import Coverage, check_coverage
from aot.verification.edge_case import EdgeCase
from aot.verification.problem_file import VERIFY
from aot.verification.session import VerifyRequest, VerifySummary, evidence_path, verify
from aot.workers.admission import admit
from aot.workers.cgroup import allowance
from cache_schema.cache_reader import Cache
from cache_schema.errors import RequestError
from cache_schema.label import decode

LINE_SECONDS = 30.0


@click.command("verify")
@click.argument("path", metavar="CACHE", callback=values.named_file)
@click.option(
    "--identity", "identities", multiple=True, metavar="LABEL|DIGEST", help="Only this kernel; may be repeated."
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Only N kernels, spread over all axes.")
@click.option(
    "--shard",
    callback=values.shard,
    metavar="I/N",
    default="1/1",
    show_default=True,
    help="Only this part of the digests.",
)
@click.option("--problems", metavar="FILE", help="The problems of a file instead of the edges of each kernel.")
@click.option("--static", is_flag=True, help="Run nothing: look for hazards in the machine code, over all its paths.")
@click.option("--strict", is_flag=True, help="With --problems: no excuse for a problem that no kernel here serves.")
@click.option(
    "--split-k",
    type=click.IntRange(min=AUTOMATIC_DEGREE),
    metavar="N",
    help="For --problem: slices, for kernels that are told how many.",
)
@click.option("--workgroups", type=click.IntRange(min=1), metavar="N", help="For --problem: those of stream-K kernels.")
@click.option(
    "--check",
    "checked",
    multiple=True,
    metavar="EVIDENCE",
    help="Run nothing: does this evidence show every kernel to be right? May be repeated.",
)
@click.option("--inputs", type=click.Choice(sorted(KINDS)), default="uniform", show_default=True, help="For --problem.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of operands and of the order of waves."
)
@click.option("--engine", type=click.Choice(ENGINES), default="llvm", show_default=True, help="Of the emulator.")
@click.option(
    "--jobs", type=click.IntRange(min=0), default=0, metavar="N", help="Processes.  [default: what the machine allows]"
)
@click.option("--evidence", metavar="FILE", help="Keep the verdicts here.  [default: beside the cache]")
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Failures to print; 0 for all."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@problem_options
def command(
    path: str,
    identities: tuple[str, ...],
    sample: int | None,
    shard: tuple[int, int],
    problems: str | None,
    static: bool,
    strict: bool,
    split_k: int | None,
    workgroups: int | None,
    checked: tuple[str, ...],
    inputs: str,
    seed: int,
    engine: str,
    jobs: int,
    evidence: str | None,
    limit: int,
    as_json: bool,
    problem_request: ProblemRequest,
) -> int:
    """Run kernels of a cache on the emulator and compare with a float64 reference.

    Every kernel gets a few small problems that reach its edges, from poisoned outputs, with NaN and infinity planted.
    Verdicts are kept in an evidence file, and a second run only does what is missing. Ends with exit code 1 if a kernel
    is wrong, and names it with a command that shows it again.

    A problem of a file that is expected to be supported and that no kernel here serves is a failure too, unless the
    grid's kernels for it are not in the cache, or all kernels refuse it for a documented reason; --strict takes no
    excuse. With --check the exit code is 1 unless every kernel is covered by evidence of its edges, from an emulator of
    this version.

    Before a kernel is run its code is checked for hazards: missing wait states and waits, and barriers that not every
    lane reaches. --static does only that.

    \b
    Examples:
      rocke-aot verify caches/gfx950-bf16.rocke --sample 100
      rocke-aot verify CACHE --problems problems.yaml
      rocke-aot verify CACHE --check CACHE.evidence.jsonl
      rocke-aot verify CACHE --static
      rocke-aot verify CACHE --identity 3f9a01 --problem "n=1 c=8 h=5 w=5 k=8 y=3 x=3" --inputs ints
    """
    if checked:
        if problems is not None or problem_request:
            raise RequestError("--check runs nothing: it goes with no problem")
        coverage = check_coverage(Path(path), [Path(file) for file in checked])
        click.echo(json.dumps(coverage.to_json(), indent=2) if as_json else _coverage_text(coverage, limit))
        return errors.OK if coverage.complete else errors.NOT_DELIVERED
    if static and (problems is not None or problem_request or evidence is not None):
        raise RequestError("--static runs nothing: it goes with no problem and leaves no evidence")
    cases = None
    launch = tuple((n, v) for n, v in (("split_k", split_k), ("workgroups", workgroups)) if v is not None)
    if launch and not problem_request:
        raise RequestError("--split-k and --workgroups are for one problem; give --problem")
    if problem_request:
        if problems is not None:
            raise RequestError("give --problems or one problem, not both")
        with Cache.open(path) as cache:
            problem = problem_request.one(cache.dtype, cache.table.directions)
        cases = (EdgeCase("problem", problem, inputs, repeat=True, launch=launch),)
    file = Path(problems) if problems is not None else None
    kept = Path(evidence) if evidence is not None else None if cases or static else evidence_path(Path(path), file)
    workers = admit(jobs, allowance()).workers
    request = VerifyRequest(
        Path(path), identities, sample, shard, cases, file, engine, seed, workers, kept, strict, static
    )
    with _Progress(as_json) as bar:
        summary = verify(request, bar.watch)
    for failure in summary.failures:
        failure["reproduce"] = _reproduce(path, failure, engine, static)
    if as_json:
        click.echo(json.dumps(summary.to_json(), indent=2))
    else:
        click.echo(_text(summary, limit))
    return errors.OK if summary.delivered else errors.NOT_DELIVERED


class _Progress:
    """A bar on a terminal, a line now and then anywhere else, nothing with --json."""

    def __init__(self, silent: bool) -> None:
        self._lines = not silent and not sys.stderr.isatty()
        self._bar: tqdm[Any] = tqdm(desc="verify", unit="kernel", disable=silent or self._lines, dynamic_ncols=True)
        self._last = time.monotonic()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def watch(self, left: int, summary: VerifySummary) -> None:
        done = summary.right + summary.wrong + summary.error
        state = f"{summary.wrong} wrong, {summary.error} errors"
        self._bar.total = done + left
        self._bar.set_postfix_str(state, refresh=False)
        self._bar.update(done - self._bar.n)
        if self._lines and time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            click.echo(f"verify: {done}/{done + left}, {state}, {summary.seconds:.0f} s", err=True)


def _reproduce(path: str, failure: dict[str, Any], engine: str, static: bool) -> str:
    """A command that runs the failing case alone."""
    words = ["rocke-aot", "verify", path, *(["--static"] if static or "hazards" in failure else ["--engine", engine])]
    words += [word for digest in failure["digests"] for word in ("--identity", digest)]
    # What serves no problem by itself is run on its own ones again.
    role = family_of(decode(failure["label"])).role
    if "failing" in failure and isinstance(role, Offer):
        failing = failure["failing"]
        words += ["--problem", failing["problem"]]
        words += ["--inputs", failing["inputs"], "--seed", str(failing["seed"])]
        if failing["degree"] != AUTOMATIC_DEGREE:
            words += [f"--{role.paths.told.replace('_', '-')}", str(failing["degree"])]
    return shlex.join(words)


def _text(summary: VerifySummary, limit: int) -> str:
    sections = [
        f"{summary.cache}: {'right' if summary.delivered else 'NOT verified'}",
        pairs(
            [
                ("kernels", summary.entries),
                ("code objects", summary.code_objects),
                (
                    "right",
                    f"{summary.right:,}"
                    + (f", {summary.reused:,} of them by earlier evidence" if summary.reused else ""),
                ),
                ("wrong", summary.wrong),
                ("errors", summary.error),
                ("serve no problem", summary.without_cases),
                ("runs", f"{summary.runs:,}" + (f", {summary.unjudged:,} not judged" if summary.unjudged else "")),
                ("wave instructions", summary.instructions),
                ("seconds", f"{summary.seconds:.1f}"),
                ("evidence", summary.evidence),
            ]
            if not summary.static
            else _static_rows(summary)
        ),
    ]
    rows = [
        (
            d.id,
            f"{d.status} ({d.excuse})" if d.excuse else d.status,
            summary.kernels_per_problem.get(d.id, 0) if d.status == VERIFY else None,
            d.reason,
        )
        for d in summary.decisions
    ]
    if rows:
        sections += ["\nproblems", table(("id", "", "kernels", ""), rows)]
    shown = summary.failures[: limit or None]
    if shown:
        sections.append("\nkernels that are not right")
    for failure in shown:
        sections += [f"  {failure['label']}", f"    {failure['message']}", f"    {failure['reproduce']}"]
    if len(shown) < len(summary.failures):
        sections.append(f"  ... and {len(summary.failures) - len(shown)} more; --limit 0 shows all")
    return "\n".join(sections)


def _static_rows(summary: VerifySummary) -> list[tuple[str, object]]:
    return [
        ("kernels", summary.entries),
        ("code objects", summary.code_objects),
        ("without hazards", summary.right),
        ("with hazards", summary.wrong),
        ("errors", summary.error),
        ("seconds", f"{summary.seconds:.1f}"),
        ("code objects/s", f"{summary.kernels_per_second:.1f}"),
    ]


def _coverage_text(coverage: Coverage, limit: int) -> str:
    covered = coverage.entries - len(coverage.gaps)
    sections = [f"{coverage.cache}: {covered:,} of {coverage.entries:,} kernels are shown to be right"]
    sections += [f"  {file} counts for nothing: {reason}" for file, reason in coverage.ignored]
    shown = coverage.gaps[: limit or None]
    sections += [f"  {gap.label}: {gap.reason}" for gap in shown]
    if len(shown) < len(coverage.gaps):
        sections.append(f"  ... and {len(coverage.gaps) - len(shown)} more; --limit 0 shows all")
    return "\n".join(sections)
