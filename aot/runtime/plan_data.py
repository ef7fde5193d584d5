"""A launch plan as plain data: everything a program needs to run one convolution, and nothing it has to work out.

    plan    = format, problem, architecture, buffers, steps, the sums that results are made of and what these mean for
              accuracy, whether equal runs give equal bits, requirements
    buffer  = name, role, dtype, shape, bytes, contents (tables only)
    step    = fill   : set every byte of a buffer to one value
            | launch : code object digest, symbol, grid, block, dynamic LDS, arguments
    argument = name, kind, offset, size, and either a value or the name of the buffer whose address it is

Steps run in order, each after the one before it has finished. Buffers with the role "workspace" belong to the plan
and hold nothing before its first step; a buffer that has to be zero has a fill step that says so. Grids are in
workgroups, blocks in work items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

from aot.runtime.accuracy import EXACT, Accuracy, accuracy_of
from cache_schema.arguments import Argument, ArgumentList
from cache_schema.errors import RequestError
from cache_schema.problem import ConvProblem

FORMAT = "rocke-aot-plan/2"
#: What kernels are compiled for: 16-byte loads and stores at offsets that are multiples of their size.
POINTER_ALIGNMENT = 16
ROLES = ("input", "output", "workspace", "table")
Dim3 = tuple[int, int, int]


class PlanError(RequestError):
    """Data that is not a launch plan, or a plan that cannot be run with what it was given."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Device memory that the plan names. `contents` are the int32 words of a table, None for all other roles."""

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    contents: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """Set all bytes of a buffer."""

    buffer: str
    byte: int = 0


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """One kernel argument: exactly one of `value` and `buffer` is set."""

    name: str
    kind: str
    offset: int
    size: int
    value: int | None = None
    buffer: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. Digests are hex; `dynamic_lds` is in bytes, on top of what the code object declares."""

    identity: str
    identity_digest: str
    code_object: str
    symbol: str
    grid: Dim3
    block: Dim3
    dynamic_lds: int
    arguments: tuple[BoundArgument, ...]

    def argument_list(self) -> ArgumentList:
        """Names and kinds of the arguments."""
        return _argument_list(tuple((argument.name, argument.kind) for argument in self.arguments))

    def pack(self, addresses: Mapping[str, int]) -> bytes:
        """The argument segment, with the address of every buffer filled in."""
        values: dict[str, int] = {}
        for argument in self.arguments:
            if argument.buffer is not None:
                if argument.buffer not in addresses:
                    raise PlanError(f"buffer {argument.buffer!r} of argument {argument.name!r} has no address")
                values[argument.name] = addresses[argument.buffer]
            elif argument.value is not None:
                values[argument.name] = argument.value
        return self.argument_list().pack(values)


@lru_cache(maxsize=64)
def _argument_list(pairs: tuple[tuple[str, str], ...]) -> ArgumentList:
    return ArgumentList(tuple(Argument(name, kind) for name, kind in pairs))


Step = Fill | Launch


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a caller must keep; a launch that breaks one of these is undefined.

    Every buffer begins at a multiple of `alignment_bytes`. Those in `disjoint` share no byte with each other: kernels
    read operands while they write results, and read them more than once. Those in `coarse_grained` are memory of the
    device itself, coarse-grained as hipMalloc gives it: elsewhere hardware may drop f32 and packed 16-bit atomics.
    """

    alignment_bytes: int
    disjoint: tuple[str, ...]
    coarse_grained: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One problem on one architecture.

    `summed_terms` is the most products that one f32 sum adds up one after the other. `partial_sums` counts the f32 sums
    that are added up beyond the first where a reduction is split, `rounded_sums` the 16-bit sums that are added up
    where it is split with 16-bit atomics; `added_to` names the buffers that atomics add to. `deterministic` says that
    equal inputs give equal bits.
    """

    arch: str
    problem: ConvProblem
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    summed_terms: int = 0
    partial_sums: int = 0
    rounded_sums: int = 0
    added_to: tuple[str, ...] = ()
    deterministic: bool = True

    def __post_init__(self) -> None:
        names = [buffer.name for buffer in self.buffers]
        if len(set(names)) != len(names):
            raise PlanError(f"buffer names repeat: {', '.join(names)}")
        for buffer in self.buffers:
            if buffer.role not in ROLES or (buffer.contents is None) == (buffer.role == "table"):
                raise PlanError(f"buffer {buffer.name!r}: role {buffer.role!r} and contents do not go together")
        for step in self.steps:
            used = (
                [step.buffer] if isinstance(step, Fill) else [a.buffer for a in step.arguments if a.buffer is not None]
            )
            for name in used:
                if name not in names:
                    raise PlanError(f"a step names buffer {name!r}, which the plan does not have")
        for name in self.added_to:
            if name not in names:
                raise PlanError(f"atomics add to buffer {name!r}, which the plan does not have")

    def buffer(self, name: str) -> Buffer:
        """The buffer of this name."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise PlanError(f"the plan has no buffer {name!r}")

    @property
    def output(self) -> Buffer:
        """The one result."""
        return next(buffer for buffer in self.buffers if buffer.role == "output")

    @property
    def zeroed(self) -> tuple[str, ...]:
        """Buffers that a fill step sets before the first launch."""
        return tuple(step.buffer for step in self.steps if isinstance(step, Fill))

    @property
    def workspace_bytes(self) -> int:
        """Device memory beyond the tensors of the problem."""
        return sum(buffer.nbytes for buffer in self.buffers if buffer.role in ("workspace", "table"))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launch steps in order."""
        return tuple(step for step in self.steps if isinstance(step, Launch))

    @property
    def accuracy(self) -> Accuracy:
        """What to expect of the numbers, as `aot.runtime.accuracy` derives it."""
        if not self.launches:
            return EXACT
        return accuracy_of(
            self.problem.dtype,
            terms=self.summed_terms,
            partial_sums=self.partial_sums,
            rounded_sums=self.rounded_sums,
        )

    @property
    def requirements(self) -> Requirements:
        """What a caller must keep."""
        return Requirements(POINTER_ALIGNMENT, tuple(buffer.name for buffer in self.buffers), self.added_to)

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` turns back into an equal plan."""
        return {
            "format": FORMAT,
            "arch": self.arch,
            "problem": asdict(self.problem),
            "accuracy": self.accuracy.to_json(),
            "deterministic": self.deterministic,
            "requirements": asdict(self.requirements),
            "summed_terms": self.summed_terms,
            "partial_sums": self.partial_sums,
            "rounded_sums": self.rounded_sums,
            "workspace_bytes": self.workspace_bytes,
            "buffers": [_without_none(asdict(buffer)) for buffer in self.buffers],
            "steps": [_step_to_json(step) for step in self.steps],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Inverse of `to_json`; `PlanError` names what is missing or unknown."""
        try:
            if data["format"] != FORMAT:
                raise PlanError(f"plan format {data['format']!r}; this program reads {FORMAT}")
            return cls(
                arch=str(data["arch"]),
                problem=ConvProblem(**data["problem"]),
                buffers=tuple(_buffer_from_json(buffer) for buffer in data["buffers"]),
                steps=tuple(_step_from_json(step) for step in data["steps"]),
                summed_terms=int(data["summed_terms"]),
                partial_sums=int(data["partial_sums"]),
                rounded_sums=int(data["rounded_sums"]),
                added_to=tuple(map(str, data["requirements"]["coarse_grained"])),
                deterministic=bool(data["deterministic"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(f"not a launch plan: {type(error).__name__}: {error}") from error


def _without_none(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


def _step_to_json(step: Step) -> dict[str, Any]:
    if isinstance(step, Fill):
        return {"kind": "fill", **asdict(step)}
    record = {"kind": "launch", **asdict(step)}
    record["kernarg_bytes"] = step.argument_list().size
    record["arguments"] = [_without_none(argument) for argument in record["arguments"]]
    return record


def _step_from_json(data: Mapping[str, Any]) -> Step:
    record = {name: value for name, value in data.items() if name not in ("kind", "kernarg_bytes")}
    if data["kind"] == "fill":
        return Fill(**record)
    if data["kind"] != "launch":
        raise PlanError(f"step kind {data['kind']!r}; known: fill, launch")
    known = {field.name for field in fields(BoundArgument)}
    arguments = tuple(BoundArgument(**{k: v for k, v in a.items() if k in known}) for a in data["arguments"])
    x, y, z = data["grid"]
    bx, by, bz = data["block"]
    return Launch(**{**record, "grid": (x, y, z), "block": (bx, by, bz), "arguments": arguments})


def _buffer_from_json(data: Mapping[str, Any]) -> Buffer:
    contents = data.get("contents")
    return Buffer(
        **{**data, "shape": tuple(data["shape"]), "contents": None if contents is None else tuple(map(int, contents))}
    )
