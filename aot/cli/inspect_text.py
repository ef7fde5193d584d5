"""How `inspect` looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aot.cli.tables import bytes_text, histogram, pairs, table
from aot.inspection.cache_summary import CacheSummary, Family
from aot.inspection.candidates import Candidates
from aot.inspection.hot_loop import KernelStatistics
from aot.inspection.kernel_report import KernelReport, set_fields
from aot.runtime.plan import needs_no_kernel
from aot.runtime.problem_text import problem_text
from cache_schema.digest import identity_digest
from cache_schema.label import encode

DIGEST_DIGITS = 12
#: Values of one axis that are shown before the rest is summed up.
AXIS_VALUES = 12


def summary(found: CacheSummary, proofs: Sequence[Mapping[str, Any]], limit: int) -> str:
    """A cache as a whole."""
    sections = [
        f"{found.path}: kernels for {found.arch}, {found.dtype}",
        pairs(
            [
                ("entries", found.entries),
                ("distinct kernels", found.kernels),
                ("file", bytes_text(found.file_bytes)),
                (
                    "code",
                    f"{bytes_text(found.code_bytes)} raw, {bytes_text(found.frame_bytes)} in {found.blocks:,} blocks",
                ),
                ("index", bytes_text(found.index_bytes)),
                ("density", f"{found.density:.2f} bytes of code per byte of file"),
                ("seal", found.seal),
            ]
        ),
    ]
    if found.provenance:
        sections += ["\nprovenance", pairs(list(_flat(found.provenance)))]
    families = [(f.direction, f.name, f.entries, f.kernels) for f in found.families]
    sections += ["\nfamilies", table(("direction", "family", "entries", "kernels"), families)]
    for family in found.families:
        sections += _axes(family)
    outcomes = [(row.kind, row.reason, row.count, row.explanation) for row in found.outcomes]
    shown = outcomes[: limit or None]
    sections += ["\noutcomes of all candidates", table(("outcome", "reason", "candidates", ""), shown)]
    if len(shown) < len(outcomes):
        sections.append(f"  ... and {len(outcomes) - len(shown)} more; --limit 0 shows all")
    sections += [
        "\nresources of the distinct kernels",
        histogram("VGPRs up to", [(str(end), count) for end, count in found.vgprs.items()]),
        "",
        histogram("LDS up to", [(bytes_text(end), count) for end, count in found.lds.items()]),
        "",
        histogram("waves per SIMD", [(str(waves), count) for waves, count in found.occupancy.items()]),
        "",
        pairs(
            [(f"limited by {limit}", count) for limit, count in found.occupancy_limits.items()]
            + [("with register spills", found.spilling), ("with scratch memory", found.scratch)]
        ),
    ]
    sections += _evidence(proofs)
    return "\n".join(sections)


def _evidence(proofs: Sequence[Mapping[str, Any]]) -> list[str]:
    if not proofs:
        return ["\nevidence: none; `rocke-aot verify` makes it"]
    names = ("right", "wrong", "error", "runs", "worst_use_of_bound")
    rows = [
        (
            p["file"] if p["of_this_cache"] else f"{p['file']} (of another cache)",
            *(p[name] for name in names),
            p["emulator"],
        )
        for p in proofs
    ]
    return ["\nevidence", table(("file", *(name.replace("_", " ") for name in names), "emulator"), rows)]


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested names as paths; lists as one text."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _axes(family: Family) -> list[str]:
    rows = []
    for name, counts in family.axes.items():
        shown = list(counts.items())[:AXIS_VALUES]
        values = "  ".join(f"{value}: {count:,}" for value, count in shown)
        rows.append((name, values + (f"  and {len(counts) - len(shown)} more" if len(counts) > len(shown) else "")))
    if not rows:
        return []
    return [f"\naxes of {family.direction} {family.name} (value: entries)", pairs(rows)]


def kernel(report: KernelReport, verdicts: Mapping[str, Mapping[str, Any]], disasm: bool) -> str:
    """One kernel."""
    entry, held, statistics = report.entry, report.occupancy, report.statistics
    offsets = entry.arguments.offsets
    arguments = [(offsets[a.name], a.kind, a.name) for a in entry.arguments.arguments]
    sections = [
        encode(entry.identity),
        pairs(
            [
                ("digest", entry.digest.hex()),
                ("symbol", entry.symbol),
                ("code object", entry.blob_digest),
                ("content key", entry.content_key),
                ("family", report.family.name + ("" if report.family.alone else ", a step of other kernels' plans")),
                *(("its plans launch", step) for step in report.steps),
            ]
        ),
        "\nresources",
        pairs(
            [
                ("block", f"{entry.block_size} threads"),
                ("VGPRs", f"{entry.vgprs} used, of them {entry.agprs} accumulation registers"),
                ("SGPRs", f"{entry.sgprs} used"),
                ("LDS", f"{entry.lds_bytes:,} bytes"),
                (
                    "scratch",
                    f"{entry.scratch_bytes:,} bytes, spilled {entry.spills[0]} VGPRs and {entry.spills[1]} SGPRs",
                ),
                ("occupancy", f"{held.waves_per_simd} waves per SIMD, limited by {held.limit}"),
                (
                    "code object",
                    f"{entry.code_bytes:,} bytes"
                    + (f", of them {statistics.code_bytes:,} instructions" if statistics else ""),
                ),
                ("loader contract", "violated" if report.violations else "ok"),
            ]
        ),
        *(f"  {violation}" for violation in report.violations),
        "\nloops with matrix instructions, per iteration",
        _loops(statistics) if statistics else f"  unknown: {report.unread}",
        "\nidentity",
        pairs(set_fields(entry.identity)),
        f"\narguments, {entry.arguments.size} bytes",
        table(("offset", "kind", "name"), arguments),
    ]
    for file, verdict in verdicts.items():
        sections.append(f"\nevidence in {file}: {verdict['verdict']}  {verdict['message']}")
        names = ("name", "inputs", "elements", "exact", "worst_error", "bound", "degree", "problem")
        rows = [[_short(case.get(name)) for name in names] for case in verdict["cases"]]
        sections.append(f"{verdict['instructions']:,} wave instructions, {len(verdict['digests'])} identities")
        sections.append(table([name.replace("_", " ") for name in names], rows))
    if disasm:
        sections += ["\ndisassembly (# hot loop, | other loop with matrix instructions)", *report.listing()]
    return "\n".join(sections)


def _short(value: object) -> object:
    return f"{value:.3g}" if isinstance(value, float) else value


def _loops(statistics: KernelStatistics) -> str:
    """Loops side by side, the whole kernel last."""
    mixes = [loop.mix for loop in statistics.loops] + [statistics.kernel]
    titles = [f"{loop.address:#x}" + (" hot" if n == statistics.hot else "") for n, loop in enumerate(statistics.loops)]
    rows: list[tuple[object, ...]] = [
        ("matrix", *(", ".join(f"{count} x {shape}" for shape, count in mix.by_shape) or "-" for mix in mixes))
    ]
    names = ("mfma_clk", "valu", "salu", "smem", "lds", "vmem", "vmem_to_lds", "waits", "barriers", "nops", "divisions",
             "mul_hi", "accvgpr_moves", "scratch")  # fmt: skip
    rows += [(name.replace("_", " "), *(str(getattr(mix, name)) for mix in mixes)) for name in names]
    rows.append(("VALU per 16 MFMA clk", *(f"{mix.valu_per_16:.2f}" for mix in mixes)))
    rows.append(("S", *(f"{mix.share:.3f}" for mix in mixes)))
    return table(("", *titles, "kernel"), rows)


def why(answer: Mapping[str, Any]) -> str:
    """What became of a candidate."""
    lines: list[tuple[str, object]] = [("digest", answer["digest"]), ("outcome", answer["outcome"])]
    lines += [(name, answer[name]) for name in ("reason", "explanation", "detail") if answer[name]]
    if "serves" in answer:
        reason = f"no, {answer['serving_reason']}: {answer['serving_explanation']}"
        lines.append(("serves the problem", "yes" if answer["serves"] else reason))
    return "\n".join([answer["label"], pairs(lines)])


def serving(found: Candidates, with_reasons: bool, limit: int) -> str:
    """The kernels that serve a problem, best estimate first."""
    shown = found.rows[: limit or None].tolist()
    identities = [found.cache.identity(row) for row in shown]
    told = found.forecast.take(np.arange(len(shown)))
    rows = [
        (identity_digest(identity).hex()[:DIGEST_DIGITS], round(clk), f"{ulps:.2f}", encode(identity))
        for identity, clk, ulps in zip(identities, told.clk.tolist(), told.expected_ulps.tolist(), strict=True)
    ]
    sections = [
        problem_text(found.problem),
        f"{len(found.rows):,} of {len(found.codes):,} entries serve it"
        + ("; best estimate first" if rows else "")
        + ("; it needs no kernel: its result is empty or zero" if needs_no_kernel(found.problem) else ""),
    ]
    if rows:
        sections.append(table(("digest", "est. clk", "ulps", "label"), rows))
    if len(shown) < len(found.rows):
        sections.append(f"  ... and {len(found.rows) - len(shown):,} more; --limit 0 shows all")
    if with_reasons:
        sections.append("\nentries that do not, by the first rule that fails" + ("" if found.refused else ": none"))
        for refused in found.refused:
            sections.append(f"  {refused.reason}  {refused.count:,}  {refused.explanation}")
            for name, counts in refused.fields.items():
                sections.append(f"    {name}  " + "  ".join(f"{value}: {count:,}" for value, count in counts.items()))
    return "\n".join(sections)
