"""The options that name a part of the grid, the same for every command, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from aot.cli.values import named_path
from cache_schema.problem import DIRECTIONS


@dataclass(frozen=True, slots=True)
class GridRequest:
    """An architecture and what of its catalogue is meant; None means all."""

    arch: str
    dtypes: tuple[str, ...]
    directions: tuple[str, ...] | None
    families: tuple[str, ...] | None
    axes_file: Path | None


def grid_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --arch, --dtype, --direction, --family and --axes; the command receives a `GridRequest` as `grid`."""

    def with_grid(
        *args: Any,
        arch: str,
        dtype: tuple[str, ...],
        direction: tuple[str, ...],
        family: tuple[str, ...],
        axes: Path | None,
        **options: Any,
    ) -> Any:
        grid = GridRequest(arch, dtype, direction or None, family or None, axes)
        return command(*args, grid=grid, **options)

    with_grid.__doc__, with_grid.__name__ = command.__doc__, command.__name__
    with_grid.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    # Names are checked by the library, which knows them all; click would have to import it to do so.
    for option in (
        click.option("--axes", callback=named_path, metavar="FILE", help="YAML that narrows or extends axes."),
        click.option("--family", multiple=True, metavar="NAME", help="Kernel family, repeatable.  [default: all]"),
        click.option(
            "--direction", multiple=True, metavar="DIR", help=f"{', '.join(DIRECTIONS)}; repeatable.  [default: all]"
        ),
        click.option(
            "--dtype",
            multiple=True,
            metavar="TYPE",
            default=("fp16", "bf16"),
            show_default="fp16 and bf16",
            help="Data type, repeatable.",
        ),
        click.option("--arch", required=True, metavar="ARCH", help="Target, for example gfx950."),
    ):
        with_grid = option(with_grid)
    return with_grid
