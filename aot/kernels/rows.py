"""The rows of the input operand: where in the image each output pixel begins, and which filter taps meet the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot.ir.builder import Builder
from aot.ir.control import Loop
from aot.ir.types import I32
from aot.ir.values import Value, constant
from aot.kernels.arguments import M_HO, M_WO
from aot.kernels.counter import NOWHERE


@dataclass(frozen=True, slots=True)
class ImageRow:
    """One output pixel: byte offset from the origin of filter tap (0, 0), channel 0, and its image coordinates."""

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


def missing_taps(b: Builder, args: Mapping[str, Value], rows: Sequence[ImageRow]) -> list[Value]:
    """Per row a word whose bit t is set where tap t = y * X + x meets no pixel; bits from Y * X on are set."""
    with Loop(b, [constant(0), constant(0), *(constant(0) for _ in rows)], "taps.x") as loop:
        x, distance, *masks = loop.carried
        masks = [
            b.or_(mask, b.shl(b.zext(b.icmp("ult", b.add(row.wi, distance), args["p_Wi"]), I32), x))
            for row, mask in zip(rows, masks, strict=True)
        ]
        following = b.add(x, 1)
        carried = [following, b.add(distance, args["p_dW"]), *masks]
        loop.repeat_if(b.icmp("slt", following, args["p_X"]), carried, masks)
    columns = loop.results
    with Loop(b, [constant(0), constant(0), constant(0), *(constant(0) for _ in rows)], "taps.y") as loop:
        y, distance, first_tap, *masks = loop.carried
        masks = [
            b.or_(
                mask,
                b.select(b.icmp("ult", b.add(row.hi, distance), args["p_Hi"]), b.shl(column, first_tap), constant(0)),
            )
            for row, column, mask in zip(rows, columns, masks, strict=True)
        ]
        following = b.add(y, 1)
        carried = [following, b.add(distance, args["p_dH"]), b.add(first_tap, args["p_X"]), *masks]
        missing = [b.xor(mask, -1) for mask in masks]
        loop.repeat_if(b.icmp("slt", following, args["p_Y"]), carried, missing)
    return loop.results
