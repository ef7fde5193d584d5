"""What is compiled, as one frozen record per kernel family.

A family derives its record from `Identity` and declares every field with `axis`, which says what the label, the
columns of a table, the cache file and the command line need to know of it. What a family fixes that its relatives
leave open is a `constant`: it can be read like a field, and cannot be set. Three roles: the *key* fields, which every
family has; *configuration*, which changes the code; *capability*, which bounds what the binary may be launched on. No
problem extent is ever part of a record, and neither is provenance (compiler, flavor, emitter): that belongs to the
content key. Integers fit a signed 32-bit word.

    @dataclass(frozen=True, slots=True)
    class Forward(Identity):
        family, direction = "implicit_gemm", "fwd"
        tile_m: int = axis("tile", 128, "rows of the output tile", least=1)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

from cache_schema.errors import RequestError, UnknownValueError

Value = str | int | bool
KEY, CONFIGURATION, CAPABILITY = "key", "configuration", "capability"
KINDS = ("str", "int", "bool")
#: Tiles, widths and counts: no workgroup has more threads, no tile more rows.
MOST_OF_A_TILE = 4096
INT_RANGE = (-(2**31), 2**31 - 1)
#: What a field of each kind holds in rows of families that lack it.
ABSENT: Mapping[str, Value] = {"str": "", "int": 0, "bool": False}

_AXIS, _CONSTANT, _SCHEMA = "axis", "constant", "_schema"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class Axis:
    """What `axis` says of a field. `least` and `most` bound integers; text is one of `words`."""

    tag: str
    sentence: str
    role: str
    least: int
    most: int
    words: tuple[str, ...] = ()


def axis(
    tag: str,
    default: Value,
    sentence: str,
    *,
    role: str = CONFIGURATION,
    least: int = 0,
    most: int = MOST_OF_A_TILE,
    words: tuple[str, ...] = (),
) -> Any:
    """A field of a family's record. Neighbouring fields of one tag share it in labels: tile=128x128x64.

    The default is what digests, labels and files leave out, so it never changes once it has been released.
    """
    return field(default=default, metadata={_AXIS: Axis(tag, sentence, role, least, most, words)})


def constant(value: Value) -> Any:
    """What a family fixes: read like a field, never set."""
    return field(default=value, init=False, repr=False, compare=False, metadata={_CONSTANT: value})


@dataclass(frozen=True, slots=True)
class Identity:
    """One kernel of a catalogue: what the records of all families have in common."""

    family: ClassVar[str]
    direction: ClassVar[str]
    #: Made from a file's description.
    foreign: ClassVar[bool] = False

    arch: str
    dtype_a: str
    dtype_b: str
    dtype_d: str


#: Names of the fields that every family has, none of which has a default.
KEYS: tuple[str, ...] = tuple(entry.name for entry in fields(Identity))


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a family. `kind` is str, int or bool; `default` is None for key fields."""

    name: str
    kind: str
    default: Value | None
    axis: Axis | None = None

    @property
    def role(self) -> str:
        """KEY, CONFIGURATION or CAPABILITY."""
        return self.axis.role if self.axis else KEY


@dataclass(frozen=True, eq=False)
class Schema:
    """The fields of one family, key fields first, and what it fixes. `record` makes an identity of values by name."""

    family: str
    direction: str
    record: type[Identity]
    fields: tuple[Field, ...]
    constants: Mapping[str, Value]
    #: Made from a file's description: kernels of a family that this program does not have.
    foreign: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(entry.name for entry in self.fields)

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """The fields, ascending by name."""
        return {entry.name: entry for entry in sorted(self.fields, key=lambda entry: entry.name)}

    @cached_property
    def tags(self) -> dict[str, tuple[Field, ...]]:
        """Tag of labels -> its fields, in order."""
        found: dict[str, tuple[Field, ...]] = {}
        for entry in self.fields:
            if entry.axis:
                found[entry.axis.tag] = (*found.get(entry.axis.tag, ()), entry)
        return found


def schema_of_record(record: type[Identity]) -> Schema:
    """The schema that a record class declares. TypeError for a field that is neither axis nor constant."""
    made: Schema | None = record.__dict__.get(_SCHEMA)
    if made is None:
        made = _read_record(record)
        setattr(record, _SCHEMA, made)
    return made


def _read_record(record: type[Identity]) -> Schema:
    found: list[Field] = []
    constants: dict[str, Value] = {}
    for entry in fields(record):
        kind = str(entry.type)
        if entry.name in KEYS:
            found.append(Field(entry.name, "str", None))
        elif _CONSTANT in entry.metadata:
            constants[entry.name] = entry.metadata[_CONSTANT]
        elif _AXIS not in entry.metadata or kind not in KINDS or entry.default is MISSING:
            raise TypeError(f"{record.__name__}.{entry.name}: a field is declared with axis() or constant()")
        else:
            found.append(Field(entry.name, kind, entry.default, entry.metadata[_AXIS]))
    return Schema(record.family, record.direction, record, tuple(found), constants, record.foreign)


def schema_of(identity: Identity) -> Schema:
    """The schema of an identity's family."""
    return schema_of_record(type(identity))


def values_of(identity: Identity) -> dict[str, Value]:
    """The fields of an identity by name, what its family fixes left out."""
    return {name: getattr(identity, name) for name in schema_of(identity).names}


def foreign_schema(family: str, direction: str, described: tuple[Field, ...]) -> Schema:
    """A schema for the rows of a family that only a file describes; its records can be shown, not launched."""
    members = [
        (entry.name, entry.kind, field(default=entry.default, metadata={_AXIS: entry.axis})) for entry in described
    ]
    fixed = {"family": family, "direction": direction, "foreign": True}
    return schema_of_record(
        dataclasses.make_dataclass("Foreign", members, bases=(Identity,), namespace=fixed, frozen=True)
    )


def is_name(text: object) -> bool:
    """Whether this can be the name of a family or a field."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


# --- the families of this program ------------------------------------------------------------------------------------

_KNOWN: dict[str, Schema] = {}


def register(record: type[Identity]) -> Schema:
    """Make the identities of a family readable. ValueError when another record has taken its name."""
    schema = schema_of_record(record)
    if not is_name(schema.family) or _KNOWN.setdefault(schema.family, schema) is not schema:
        raise ValueError(f"family {schema.family!r} has another record already, or is no name")
    return schema


def forget(record: type[Identity]) -> None:
    """Undo `register`."""
    del _KNOWN[record.family]


def known_schemas() -> Mapping[str, Schema]:
    """Schemas of the families of this program by name."""
    return _KNOWN


def known_schema(family: str) -> Schema:
    """The schema of a family of this program; `UnknownValueError` for a name that is none."""
    try:
        return _KNOWN[family]
    except KeyError:
        raise UnknownValueError("kernel family", family, _KNOWN) from None


def with_fields(identity: Identity, **values: Value) -> Identity:
    """A copy with other values; RequestError for a field that the family does not have."""
    schema = schema_of(identity)
    lacking = [name for name in values if name not in schema.by_name]
    if lacking:
        raise RequestError(f"{schema.family} kernels have no {', '.join(lacking)}; they have {', '.join(schema.names)}")
    return dataclasses.replace(identity, **values)  # type: ignore[arg-type]
