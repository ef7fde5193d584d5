"""Code generation options: LLVM command-line options, of which a process has exactly one set.

LLVM keeps them in globals, so engines with different sets in one process switch before they compile. Switching back
needs the default, and LLVM's C interface neither tells it nor reports a name it does not know (llvmlite even ends the
process). So the vocabulary is closed: an option is listed here with its default and the first LLVM that has it. All of
them are read when a compilation starts, and naming the default explicitly is the same as not naming the option.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from aot.toolchain.errors import CodegenOptionError


@dataclass(frozen=True, slots=True)
class CodegenOption:
    """One LLVM option: its default as LLVM prints it, and the first LLVM major that has it."""

    name: str
    default: str
    first_major: int = 20


CODEGEN_OPTIONS: dict[str, CodegenOption] = {
    option.name: option
    for option in (
        # No loop strength reduction: the addresses stay as they were emitted.
        CodegenOption("disable-lsr", "false"),
        # MFMA keeps accumulators in VGPRs even where AGPRs are free.
        CodegenOption("amdgpu-mfma-vgpr-form", "false", first_major=21),
        # Vector phis are split into scalars, which makes the register allocator copy accumulators every round.
        CodegenOption("amdgpu-codegenprepare-break-large-phis", "true"),
        # The scalar IR passes before selection: GEP splitting, SLSR, GVN or early CSE, LICM.
        CodegenOption("amdgpu-scalar-ir-passes", "true"),
        # How the machine scheduler weighs occupancy against latency.
        CodegenOption("amdgpu-schedule-relaxed-occupancy", "false"),
        CodegenOption("amdgpu-schedule-metric-bias", "10"),
    )
}


def parse_options(options: Iterable[str], llvm_major: int) -> dict[str, str]:
    """`("-disable-lsr", "-x=3")` as `{name: value}`; a name alone means true. Sorted by name, defaults left out.

    Raises CodegenOptionError for a name out of the vocabulary, one its LLVM does not have, or two values for one name.
    """
    values: dict[str, str] = {}
    for text in options:
        name, _, value = text.lstrip("-").partition("=")
        value = value or "true"
        option = CODEGEN_OPTIONS.get(name)
        if option is None:
            raise CodegenOptionError(f"unknown codegen option {text!r}; known: {', '.join(sorted(CODEGEN_OPTIONS))}")
        if llvm_major < option.first_major:
            raise CodegenOptionError(f"codegen option {text!r} needs LLVM {option.first_major}, this is {llvm_major}")
        if values.setdefault(name, value) != value:
            raise CodegenOptionError(f"codegen option -{name} is given twice, as {values[name]} and as {value}")
    return {name: value for name, value in sorted(values.items()) if value != CODEGEN_OPTIONS[name].default}


def as_flags(values: Mapping[str, str]) -> list[str]:
    """The options as LLVM's command line takes them."""
    return [f"-{name}={value}" for name, value in values.items()]


class ProcessOptions:
    """The options in force in one loaded LLVM. `apply` hands flags to that LLVM's command-line parser."""

    def __init__(self, apply: Callable[[list[str]], None]) -> None:
        self._apply = apply
        self._active: dict[str, str] = {}
        self._lock = threading.Lock()

    @contextmanager
    def in_force(self, wanted: Mapping[str, str]) -> Iterator[None]:
        """Hold `wanted` and nothing else in force, so compilations of one LLVM in one process run one at a time."""
        with self._lock:
            if self._active != wanted:
                changed = {name: CODEGEN_OPTIONS[name].default for name in self._active if name not in wanted}
                changed |= {name: value for name, value in wanted.items() if self._active.get(name) != value}
                self._apply(as_flags(changed))
                self._active = dict(wanted)
            yield
