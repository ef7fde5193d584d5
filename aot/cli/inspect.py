"""`rocke-aot inspect`: look into a cache."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np

from aot.cli import inspect_text as text
from aot.cli.problem_options import ProblemRequest, problem_options
from aot.cli.values import named_file
from aot.inspection.cache_summary import summarise
from aot.inspection.candidates import Candidates, find_candidates
from aot.inspection.kernel_report import report_kernel
from aot.inspection.resolve import resolve
from aot.runtime.plan import needs_no_kernel
from aot.toolchain import find_toolchain
from aot.verification.evidence_reading import evidence_files, find_verdict, summarise_evidence
from cache_schema.cache_reader import Cache
from cache_schema.digest import identity_digest
from cache_schema.errors import RequestError
from cache_schema.identity import Identity
from cache_schema.label import encode
from cache_schema.outcome import Outcome
from cache_schema.problem import ConvProblem
from cache_schema.table import IdentityTable
from grids.reasons import explanations
from grids.serving import serves, serving_reasons


@click.command("inspect")
@click.argument("path", metavar="CACHE", callback=named_file)
@click.option("--identity", metavar="LABEL|DIGEST", help="One kernel: its label, its digest, or how the digest begins.")
@click.option("--why", is_flag=True, help="Say why: what became of --identity, or what refuses --problem.")
@click.option("--disasm", is_flag=True, help="With --identity: print the disassembly, loops marked in the margin.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Rows of a long list; 0 for all."
)
@click.option("--toolchain", metavar="NAME", help="Disassemble with this toolchain.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@problem_options
def command(
    path: str,
    identity: str | None,
    why: bool,
    disasm: bool,
    limit: int,
    toolchain: str | None,
    as_json: bool,
    problem_request: ProblemRequest,
) -> None:
    """Look into a cache: what it holds, one kernel, or the kernels that serve a problem.

    \b
    Examples:
      rocke-aot inspect caches/gfx950-bf16.rocke
      rocke-aot inspect CACHE --identity 3f9a01 --disasm
      rocke-aot inspect CACHE --problem "convbfp16 -n 8 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1" --why
      rocke-aot inspect CACHE --why --identity "fwd:implicit_gemm:gfx950:bf16:tile=64x64x32:..."
    """
    if disasm and identity is None:
        raise RequestError("--disasm needs --identity")
    with Cache.open(path) as cache:
        problem = problem_request.one(cache.dtype, cache.table.directions) if problem_request else None
        if identity is not None:
            wanted = resolve(cache, identity)
            if why or problem is not None:
                answer, rendered = _why(cache, wanted, problem)
            else:
                answer, rendered = _kernel(cache, wanted, toolchain, disasm)
        elif problem is not None:
            answer, rendered = _serving(cache, problem, why, limit)
        elif why:
            raise RequestError("--why needs --identity or a problem")
        else:
            summary = summarise(cache)
            proofs = [row for file in evidence_files(cache.path) for row in summarise_evidence(summary.seal, file)]
            answer, rendered = {**summary.to_json(), "evidence": proofs}, text.summary(summary, proofs, limit)
    click.echo(json.dumps(answer, indent=2) if as_json else rendered)


def _kernel(cache: Cache, wanted: Identity, toolchain: str | None, disasm: bool) -> tuple[dict[str, Any], str]:
    number = cache.find_identity(wanted)
    if number is None:
        raise RequestError(f"{cache.path} has no kernel for {encode(wanted)}; --why tells what became of it")
    report = report_kernel(cache, number, find_toolchain(toolchain) if toolchain else None)
    digest, sealed = report.entry.digest.hex(), cache.seal
    proofs = [(file, find_verdict(file, sealed, digest)) for file in evidence_files(cache.path)]
    verdicts = {str(file): verdict for file, verdict in proofs if verdict is not None}
    answer = {**report.to_json(), "evidence": verdicts}
    if disasm:
        answer["disassembly"] = report.listing()
    return answer, text.kernel(report, verdicts, disasm)


def _why(cache: Cache, wanted: Identity, problem: ConvProblem | None) -> tuple[dict[str, Any], str]:
    """What became of a candidate, and whether it serves the problem, if there is one."""
    outcome: Outcome | None = cache.outcome(wanted)
    answer: dict[str, Any] = {
        "label": encode(wanted),
        "digest": identity_digest(wanted).hex(),
        "outcome": outcome.kind.name.lower() if outcome else "unknown",
        "reason": outcome.reason if outcome else "",
        "detail": outcome.detail if outcome else "never a candidate of this cache",
    }
    answer["explanation"] = explanations().get(answer["reason"], "")
    if problem is not None:
        _, codes = serves(IdentityTable.from_identities([wanted]), problem)
        reason = serving_reasons()[int(codes[0])]
        answer["serves"] = not reason
        answer["serving_reason"] = reason
        answer["serving_explanation"] = explanations().get(reason, "")
    return answer, text.why(answer)


def _serving(cache: Cache, problem: ConvProblem, why: bool, limit: int) -> tuple[dict[str, Any], str]:
    found = find_candidates(cache, problem)
    return _serving_json(found, why, limit), text.serving(found, why, limit)


def _serving_json(found: Candidates, why: bool, limit: int) -> dict[str, Any]:
    shown = found.rows[: limit or None].tolist()
    told = found.forecast.take(np.arange(len(shown)))
    answer: dict[str, Any] = {
        "entries": len(found.codes),
        "serving": len(found.rows),
        "needs_no_kernel": needs_no_kernel(found.problem),
        "candidates": [
            {
                "label": encode(i),
                "digest": identity_digest(i).hex(),
                "estimated_clk": round(clk),
                "expected_ulps": float(f"{ulps:.3g}"),
                "deterministic": bool(same),
            }
            for i, clk, ulps, same in zip(
                map(found.cache.identity, shown),
                told.clk.tolist(),
                told.expected_ulps.tolist(),
                told.deterministic.tolist(),
                strict=True,
            )
        ],
    }
    if why:
        answer["refused"] = [
            {"reason": r.reason, "entries": r.count, "explanation": r.explanation, "fields": r.fields}
            for r in found.refused
        ]
    return answer
