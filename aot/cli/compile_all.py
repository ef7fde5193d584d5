"""`rocke-aot compile-all`: build kernel caches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from aot.cli import errors, values
from aot.cli.grid_options import GridRequest, grid_options
from aot.cli.progress import progress_for
from aot.cli.tables import bytes_text
from aot.farm.build import DEFAULT_TIME_LIMIT_SECONDS, BuildRequest, build
from aot.farm.selection import GridScope
from aot.farm.summary import CacheSummary
from aot.toolchain import find_toolchain
from aot.workers.interrupt import StopFlag

_COUNTS = ("identities", "built", "duplicates", "reused", "rejected", "failed", "timed_out", "disturbed")
_FAILURES_SHOWN = 10


@click.command("compile-all")
@grid_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N kernels per type, over all axes.")
@click.option(
    "--jobs", type=click.IntRange(min=0), default=0, metavar="N", help="Worker processes; 0: all CPUs allowed."
)
@click.option("--shard", callback=values.shard, metavar="I/N", help="Build part I of N: a range of identity digests.")
@click.option("--toolchain", metavar="NAME", help="Compiler to use; `doctor` lists them.")
@click.option(
    "--time-limit",
    type=float,
    callback=values.seconds,
    default=DEFAULT_TIME_LIMIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Give up a kernel after this long.",
)
@click.option("--retry-failed", is_flag=True, help="Try again what failed in the last build.")
@click.option("--replace", is_flag=True, help="Replace a cache that has more kernels, or that cannot be read.")
@click.option("--out", callback=values.named_path, required=True, metavar="DIR", help="Folder of the caches.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON summary and no progress.")
def command(
    grid: GridRequest,
    limit: int | None,
    jobs: int,
    shard: tuple[int, int] | None,
    toolchain: str | None,
    time_limit: float,
    retry_failed: bool,
    replace: bool,
    out: Path,
    as_json: bool,
) -> int:
    """Build one cache file per data type: DIR/ARCH-TYPE.rocke.

    A second run compiles only what changed. A build that was stopped goes on where it was. Ends with exit code 1 if a
    kernel could not be built; the rest is in the file all the same, and the reason in its ledger.

    \b
    Examples:
      rocke-aot compile-all --arch gfx950 --out caches
      rocke-aot compile-all --arch gfx950 --dtype bf16 --direction fwd --limit 2000 --out caches
      rocke-aot compile-all --arch gfx942 --shard 3/16 --jobs 32 --json --out part3
    """
    request = BuildRequest(
        scope=GridScope(grid.arch, grid.directions, grid.families, grid.axes_file, limit, shard),
        dtypes=grid.dtypes,
        toolchain=find_toolchain(toolchain),
        out=out,
        jobs=jobs,
        time_limit=time_limit,
        retry_failed=retry_failed,
        replace=replace,
    )
    with StopFlag() as stop:
        summaries = build(request, progress_for(as_json), stop)
    if as_json:
        click.echo(json.dumps(_as_json(summaries), indent=2))
    else:
        for summary in summaries:
            _show(summary)
    return errors.OK if all(summary.complete for summary in summaries) else errors.NOT_DELIVERED


def _as_json(summaries: Sequence[CacheSummary]) -> dict[str, Any]:
    """Sums over all files, the files themselves, and for a single file its name and digest on top."""
    stages: dict[str, float] = {}
    for summary in summaries:
        for name, seconds in summary.stages.items():
            stages[name] = round(stages.get(name, 0.0) + seconds, 3)
    data: dict[str, Any] = {name: sum(getattr(summary, name) for summary in summaries) for name in _COUNTS}
    data |= {"seconds": round(sum(summary.seconds for summary in summaries), 3), "stages": stages}
    if len(summaries) == 1:
        data |= {"cache": str(summaries[0].cache), "sha256": summaries[0].sha256}
    return data | {"caches": [summary.to_json() for summary in summaries]}


def _show(summary: CacheSummary) -> None:
    for note in summary.notes:
        click.echo(f"note: {note}", err=True)
    compiled = (
        f", {summary.built / summary.seconds:.1f} kernels/s on {summary.workers} workers" if summary.built else ""
    )
    state = "" if summary.changed else " (unchanged)"
    click.echo(f"{summary.cache}{state}: {bytes_text(summary.bytes)}, sha256 {summary.sha256}")
    counts = ", ".join(f"{getattr(summary, name)} {name.replace('_', ' ')}" for name in _COUNTS)
    click.echo(f"  {counts} in {summary.seconds:.1f} s{compiled}")
    for label, message in list(summary.failures.items())[:_FAILURES_SHOWN]:
        click.echo(f"  failed: {label}: {message}", err=True)
    if hidden := summary.missing - min(len(summary.failures), _FAILURES_SHOWN):
        click.echo(f"  and {hidden} more failures; `rocke-aot inspect {summary.cache}` has all of them", err=True)
