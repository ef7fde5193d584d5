"""The readable name of an identity, without loss: `decode(encode(identity)) == identity`.

    label   = direction ":" family ":" arch ":" dtypes { ":" tag }
    dtypes  = dtype                                  all three equal
            | dtype_a "-" dtype_b "-" dtype_d
    tag     = name "=" value { "x" value }           fields of one tag, such as tile=128x128x64
            | name                                   a flag that is set
            | name "=0"                              a flag that is set by default and not here

A tag appears if, and only if, one of its fields differs from the default of the family; tags come in the order in
which the family declares them (`identity.axis`). Text is percent-encoded beyond letters, digits and "_.+-". There is
one label per identity, so equal labels mean equal identities: a label in any other form is refused and the right form
is named.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from cache_schema.errors import RequestError
from cache_schema.identity import INT_RANGE, Identity, Schema, Value, known_schemas, schema_of

_TEXT = re.compile(r"(?:[A-Za-z0-9_.+-]|%[0-9A-F]{2})*")
_INT = re.compile(r"0|-?[1-9][0-9]{0,9}")


class LabelError(RequestError):
    """A text that is not the label of any identity; `part` is the piece that is wrong."""

    def __init__(self, part: str, message: str) -> None:
        self.part = part
        super().__init__(f"label part {part!r}: {message}")


def encode(identity: Identity) -> str:
    """The label."""
    schema = schema_of(identity)
    dtypes = [_text(d).replace("-", "%2D") for d in (identity.dtype_a, identity.dtype_b, identity.dtype_d)]
    parts = [schema.direction, schema.family, _text(identity.arch)]
    parts.append(dtypes[0] if dtypes[0] == dtypes[1] == dtypes[2] else "-".join(dtypes))
    for tag, fields in schema.tags.items():
        values = [getattr(identity, field.name) for field in fields]
        if values == [field.default for field in fields]:
            continue
        kind = fields[0].kind
        if kind == "bool":
            parts.append(tag if values[0] else f"{tag}=0")
        elif kind == "int":
            parts.append(f"{tag}={'x'.join(map(str, values))}")
        else:
            parts.append(f"{tag}={_text(values[0])}")
    return ":".join(parts)


def decode(label: str) -> Identity:
    """The identity of a label; `LabelError` names the part that is wrong."""
    parts = label.split(":")
    if len(parts) < 4:
        raise LabelError(label, "a label starts with direction:family:arch:dtype")
    schema = _schema(*parts[:2])
    arch = _untext(parts[2])
    dtypes = [_untext(dtype) for dtype in parts[3].split("-")]
    if len(dtypes) not in (1, 3):
        raise LabelError(parts[3], "one dtype, or three joined by '-'")
    values: dict[str, Value] = {}
    for part in parts[4:]:
        values.update(_read_tag(schema, part))
    dtype_a, dtype_b, dtype_d = dtypes * 3 if len(dtypes) == 1 else dtypes
    identity = schema.record(arch, dtype_a, dtype_b, dtype_d, **values)
    right = encode(identity)
    if right != label:
        pieces = right.split(":")
        wrong = next((part for at, part in enumerate(parts) if pieces[at : at + 1] != [part]), parts[-1])
        raise LabelError(wrong, f"repeated, out of order or not in its shortest form; the label is {right}")
    return identity


def _schema(direction: str, family: str) -> Schema:
    schema = known_schemas().get(family)
    if schema is None:
        raise LabelError(family, f"no kernel family; known: {', '.join(known_schemas())}")
    if schema.direction != direction:
        raise LabelError(direction, f"{family} kernels are of direction {schema.direction}")
    return schema


def _read_tag(schema: Schema, part: str) -> dict[str, Value]:
    tag, equals, text = part.partition("=")
    fields = schema.tags.get(tag)
    if fields is None:
        raise LabelError(part, f"{schema.family} kernels have no tag {tag!r}; they have {', '.join(schema.tags)}")
    kind = fields[0].kind
    if kind == "bool":
        if equals and text != "0":
            raise LabelError(part, f"a flag is written {tag!r} or '{tag}=0'")
        return {fields[0].name: not equals}
    if not equals:
        raise LabelError(part, f"tag {tag!r} needs a value")
    if kind == "str":
        return {fields[0].name: _untext(text)}
    numbers = text.split("x")
    if len(numbers) != len(fields):
        raise LabelError(part, f"tag {tag!r} has {len(fields)} numbers joined by 'x'")
    return {field.name: _integer(part, number) for field, number in zip(fields, numbers, strict=True)}


def _integer(part: str, text: str) -> int:
    if not _INT.fullmatch(text) or not INT_RANGE[0] <= int(text) <= INT_RANGE[1]:
        raise LabelError(part, f"{text!r} is not a 32-bit decimal integer")
    return int(text)


@lru_cache(maxsize=4096)
def _text(value: str) -> str:
    # quote() also leaves "~" alone.
    return quote(value, safe="+").replace("~", "%7E")


def _untext(text: str) -> str:
    if not _TEXT.fullmatch(text):
        raise LabelError(text, "text is letters, digits, '_.+-' and %XX")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise LabelError(text, "not the percent-encoding of UTF-8 text") from error
