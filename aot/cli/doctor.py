"""`rocke-aot doctor`: what compiles here, why it was chosen, what is missing, and the command that gets it."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from aot.cli import errors
from aot.cli.tables import bytes_text, pairs
from aot.farm.admission import admit
from aot.farm.cgroup import allowance
from aot.toolchain import Toolchain, find_toolchain
from aot.toolchain.discover import INSTALL_LINKER, INSTALL_SYSTEM, OWN_LINKER, candidates
from cache_schema.errors import RockeAotError


@click.command("doctor")
@click.option("--toolchain", metavar="NAME", help="Look at this toolchain instead of the preferred one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(toolchain: str | None, as_json: bool) -> int:
    """Say which toolchain was found, which LLVM and IR flavor, why, and what is missing.

    Ends with exit code 1 if kernels cannot be compiled here.

    \b
    Example:
      rocke-aot doctor
      rocke-aot doctor --toolchain llvmlite
    """
    report = _report(toolchain)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        for title, facts in report.items():
            if isinstance(facts, dict):
                click.echo(title)
                click.echo(pairs([(name.replace("_", " "), value) for name, value in facts.items()]))
            else:
                for fact in facts:
                    click.echo(f"{title}: {fact}")
    return errors.OK if report["toolchain"] else errors.NOT_DELIVERED


def _report(name: str | None) -> dict[str, Any]:
    allowed = allowance()
    machine = {
        "python": sys.version.split()[0],
        "cpus_allowed": allowed.cpus,
        "memory_allowed": bytes_text(allowed.memory_bytes),
        "workers": admit(0, allowed).workers,
    }
    missing: list[str] = []
    facts: dict[str, Any] = {}
    try:
        found = find_toolchain(name)
    except RockeAotError as error:
        missing.append(str(error))
    else:
        facts = _toolchain(found)
        missing += _missing(found)
    others = [f"{parts.name} (engines {', '.join(parts.engines)}): {reason}" for parts, reason in candidates()]
    return {"machine": machine, "toolchain": facts, "candidate": others, "missing": missing}


def _toolchain(found: Toolchain) -> dict[str, Any]:
    return {
        "name": found.name,
        "chosen_because": found.chosen_because,
        "llvm": found.llvm_version,
        "ir_flavor": found.flavor,
        "engine": found.engine,
        "engines": ", ".join(found.engines),
        "linker": found.linker_version,
        "compiler_digest": found.compiler_digest,
        "library": str(found.libllvm or ""),
        "clang": str(found.clang or ""),
        "objdump": str(found.objdump or ""),
    }


def _missing(found: Toolchain) -> list[str]:
    missing = []
    if found.linker_version == OWN_LINKER:
        missing.append(f"ld.lld, for objects that the built-in linker does not know; get it with: {INSTALL_LINKER}")
    if found.engine == "llvmlite":
        missing.append(f"libLLVM, which compiles faster than llvmlite; get it with: {INSTALL_SYSTEM}")
    if found.objdump is None and found.libllvm is None:
        missing.append(f"a disassembler, for inspect; get it with: {INSTALL_SYSTEM}")
    return missing
