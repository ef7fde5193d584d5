"""Text for terminals: aligned columns, numbers with units, bars. Functions return strings; commands print them."""

from __future__ import annotations

from collections.abc import Sequence

BAR_WIDTH = 28


def table(header: Sequence[str], rows: Sequence[Sequence[object]], indent: int = 2) -> str:
    """Columns as wide as their widest cell; a column of numbers is flush right. Empty rows give an empty string."""
    if not rows:
        return ""
    cells = [[text(cell) for cell in row] for row in rows]
    numeric = [
        all(isinstance(row[column], int | float) or row[column] is None for row in rows)
        for column in range(len(header))
    ]
    widths = [max(len(title), *(len(row[i]) for row in cells)) for i, title in enumerate(header)]
    lines = []
    for line in ([list(header)] if any(header) else []) + cells:
        padded = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(line, widths, numeric, strict=True)]
        lines.append(" " * indent + "  ".join(padded).rstrip())
    return "\n".join(lines)


def text(value: object) -> str:
    """A cell: integers with thin grouping, three decimals for fractions, a dash for nothing."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)


def pairs(items: Sequence[tuple[str, object]], indent: int = 2) -> str:
    """Names and values, one per line, values aligned."""
    width = max((len(name) for name, _ in items), default=0)
    return "\n".join(f"{' ' * indent}{name.ljust(width)}  {text(value)}" for name, value in items)


def bytes_text(count: int | float) -> str:
    """Bytes in the unit that leaves at most four digits."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def histogram(title: str, bins: Sequence[tuple[str, int]], indent: int = 2) -> str:
    """Counts per bin with bars in proportion to the largest; empty bins at both ends are left out."""
    filled = [place for place, (_, count) in enumerate(bins) if count]
    if not filled:
        return ""
    most = max(count for _, count in bins)
    shown = bins[filled[0] : filled[-1] + 1]
    return table(
        (title, "kernels", ""), [(label, count, "#" * -(-count * BAR_WIDTH // most)) for label, count in shown], indent
    )
