"""`rocke-aot doctor`: what compiles here, why it was chosen, what is missing, and the command that gets it."""

from __future__ import annotations

import json
from typing import Any

import click

from aot.cli import errors
from aot.cli.tables import bytes_text, pairs
from aot.toolchain import Toolchain
from aot.toolchain.doctor import Candidate, Diagnosis, doctor
from aot.workers.admission import admit
from aot.workers.cgroup import allowance


@click.command("doctor")
@click.option("--toolchain", metavar="NAME", help="Look at this toolchain instead of the preferred one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(toolchain: str | None, as_json: bool) -> int:
    """Say which toolchain was found, which LLVM and IR flavor, why, and what is missing.

    Ends with exit code 1 if kernels cannot be compiled here.

    \b
    Examples:
      rocke-aot doctor
      rocke-aot doctor --toolchain llvmlite
    """
    diagnosis = doctor(toolchain)
    report = _report(diagnosis)
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
    return errors.OK if diagnosis.is_healthy else errors.NOT_DELIVERED


def _report(diagnosis: Diagnosis) -> dict[str, Any]:
    allowed = allowance()
    machine = {
        "python": diagnosis.python,
        "cpus_allowed": allowed.cpus,
        "memory_allowed": bytes_text(allowed.memory_bytes),
        "workers": admit(0, allowed).workers,
    }
    missing = [diagnosis.problem] if diagnosis.problem else []
    missing += [f"{tool.need}; get it with: {tool.command}" for tool in diagnosis.tools if tool.command]
    return {
        "machine": machine,
        "toolchain": _toolchain(diagnosis.chosen) if diagnosis.chosen else {},
        "candidate": [_candidate(candidate) for candidate in diagnosis.candidates],
        "missing": missing,
    }


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


def _candidate(candidate: Candidate) -> str:
    version = f"LLVM {candidate.llvm_version}" if candidate.problem is None else f"unusable: {candidate.problem}"
    return f"{candidate.name} (engines {', '.join(candidate.engines)}): {version}; {candidate.reason}"
