"""Option values that click takes and we do not: callbacks of options."""

from __future__ import annotations

import re
from pathlib import Path

import click


def named_file(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """The name of a file that has to be there; see `named_path`."""
    if not value:
        raise click.BadParameter("the path is empty", context, parameter)
    return value


def named_path(context: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    """A path. An empty text, such as an unset variable of a script leaves, would be the working directory."""
    if value == "":
        raise click.BadParameter("the path is empty", context, parameter)
    return None if value is None else Path(value)


def seconds(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """A time above zero; `inf` is no limit."""
    if not value > 0:  # false for nan too
        raise click.BadParameter(f"{value} is not a number above zero", context, parameter)
    return value


def shard(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """ "2/8" as (2, 8)."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", value)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"{value!r} is not I/N with 1 <= I <= N, for example 2/8", context, parameter)
    return int(found[1]), int(found[2])
