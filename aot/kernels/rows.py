"""The rows of the input operand: where in the image each output pixel begins, and which filter taps meet the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.control import Loop
from aot.ir.types import I32
from aot.ir.values import Late, Value, constant
from aot.kernels.arguments import M_HO, M_WO
from aot.kernels.counter import NOWHERE


@dataclass(frozen=True, slots=True)
class ImageRow:
    """What tap (0, 0), channel 0 meets at one output pixel: byte offset from the origin, image row and column."""

    start_bytes: Value
    hi: Value
    wi: Value


def image_rows(b: Builder, args: Mapping[str, Value], pixels: Sequence[Value]) -> list[ImageRow]:
    """Decode output pixels m -> (n, ho, wo); pixels from M on get coordinates outside of the image."""
    by_wo, by_ho = M_WO.of(args), M_HO.of(args)
    rows = []
    for m in pixels:
        line, wo = by_wo.divmod(b, m)
        image, ho = by_ho.divmod(b, line)
        start = b.add(
            b.add(b.mul(image, args["a_n_bytes"]), b.mul(ho, args["a_ho_bytes"])), b.mul(wo, args["a_wo_bytes"])
        )
        hi = b.sub(b.mul(ho, args["p_sH"]), args["p_pH"])
        wi = b.sub(b.mul(wo, args["p_sW"]), args["p_pW"])
        rows.append(ImageRow(start, b.select(b.icmp("slt", m, args["p_M"]), hi, NOWHERE), wi))
    return rows


@dataclass(frozen=True, slots=True)
class Taps:
    """A filter over an image, h along rows and w along columns: pixels of the image, taps, pixels from tap to tap."""

    image_h: Late
    image_w: Late
    count_h: Late
    count_w: Late
    step_h: Late
    step_w: Late


def missing_taps(b: Builder, taps: Taps, rows: Sequence[ImageRow]) -> list[Value]:
    """Per row a word whose bit t is set where tap t = y * count_w + x meets no pixel, or where there is no tap t."""
    with Loop(b, [constant(0), constant(0), *(constant(0) for _ in rows)], "taps.x") as loop:
        x, distance, *masks = loop.carried
        masks = [
            b.or_(mask, b.shl(b.zext(b.icmp("ult", b.add(row.wi, distance), taps.image_w()), I32), x))
            for row, mask in zip(rows, masks, strict=True)
        ]
        following = b.add(x, 1)
        carried = [following, b.add(distance, taps.step_w()), *masks]
        loop.repeat_if(b.icmp("slt", following, taps.count_w()), carried, masks)
    columns = loop.results
    with Loop(b, [constant(0), constant(0), constant(0), *(constant(0) for _ in rows)], "taps.y") as loop:
        y, distance, first_tap, *masks = loop.carried
        masks = [
            b.or_(
                mask,
                b.select(b.icmp("ult", b.add(row.hi, distance), taps.image_h()), b.shl(column, first_tap), constant(0)),
            )
            for row, column, mask in zip(rows, columns, masks, strict=True)
        ]
        following = b.add(y, 1)
        carried = [following, b.add(distance, taps.step_h()), b.add(first_tap, taps.count_w()), *masks]
        missing = [b.xor(mask, -1) for mask in masks]
        loop.repeat_if(b.icmp("slt", following, taps.count_h()), carried, missing)
    return loop.results
