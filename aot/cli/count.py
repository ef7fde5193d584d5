"""`rocke-aot count`: how many kernels a grid has, before and after the rules. Needs no compiler."""

from __future__ import annotations

import json

import click

from aot.cli.grid_options import GridRequest, grid_options
from aot.cli.tables import table
from grids.catalogue import open_catalogue
from grids.reasons import explain


@click.command("count")
@grid_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON rows instead of a table.")
def command(grid: GridRequest, as_json: bool) -> None:
    """Count candidates, admitted and buildable kernels, and say why the rest is rejected.

    Admitted kernels pass the published rules, buildable ones the needs of our builders as well.

    \b
    Example:
      rocke-aot count --arch gfx950 --dtype bf16 --direction fwd
    """
    catalogue = open_catalogue(grid.arch, grid.dtypes, grid.directions, grid.families, grid.axes_file)
    rows = catalogue.count_rows()
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=2))
        return
    header = ("arch", "dtype", "direction", "family", "candidates", "admitted", "buildable")
    body = [[getattr(row, name) for name in header] for row in rows]
    totals = [sum(getattr(row, name) for row in rows) for name in header[4:]]
    click.echo(table(header, [*body, ["total", "", "", "", *totals]], indent=0))
    reasons: dict[str, int] = {}
    for row in rows:
        for reason, number in row.rejected.items():
            reasons[reason] = reasons.get(reason, 0) + number
    if reasons:
        click.echo("\nrejected, by the first rule that fails")
        click.echo(table(("reason", "candidates", ""), [[code, n, explain(code)] for code, n in reasons.items()]))
