"""`rocke-aot describe`: what a grid is made of, value by value. Needs no compiler."""

from __future__ import annotations

import json
from itertools import groupby

import click

from aot.cli.grid_options import GridRequest, grid_options
from aot.cli.tables import table
from grids.catalogue import open_catalogue


@click.command("describe")
@grid_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON rows instead of tables.")
def command(grid: GridRequest, as_json: bool) -> None:
    """Show how many kernels each value of each axis has; axes with a single value are left out.

    \b
    Example:
      rocke-aot describe --arch gfx942 --dtype fp16 --direction fwd
    """
    catalogue = open_catalogue(grid.arch, grid.dtypes, grid.directions, grid.families, grid.axes_file)
    rows = catalogue.axis_rows()
    if as_json:
        click.echo(json.dumps([row.to_json() for row in rows], indent=2))
        return
    for (dtype, direction), group in groupby(rows, key=lambda row: (row.dtype, row.direction)):
        click.echo(f"{grid.arch} {dtype} {direction}")
        body, last = [], ""
        for row in group:
            body.append([row.axis if row.axis != last else "", row.value, row.candidates, row.admitted, row.buildable])
            last = row.axis
        click.echo(table(("axis", "value", "candidates", "admitted", "buildable"), body))
        click.echo()
