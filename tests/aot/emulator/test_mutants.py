"""Faults planted in real kernels are noticed: by wrong numbers, by the sanitizer, or by a typed error.

What survives must be known to change nothing, see EQUIVALENT. Those are found by reading the code around the mutant:
either the mutation does not change what is computed, or something else in the kernel already does what was removed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.aot.emulator.mutant_trial import Subject, Trial, cache_subjects, trials, triton_subject
from tests.aot.emulator.triton.launch import DATA, load

KERNELS = {str(kernel): kernel for kernel in load(DATA)}

#: Kernel -> address of a survivor -> why it is no fault.
EQUIVALENT: dict[str, dict[int, str]] = {
    "gfx950-gemm_bf16_64x64x32": {
        0x1ECC: "the index of the LDS buffer; any sequence is right, because a barrier also keeps the buffers apart",
        0x1ED0: "as above",
        0x1EF0: "the barrier behind the reads, which two LDS buffers make superfluous",
        0x22C0: "one K tile more, of which every load is masked to zero",
    },
    "gfx950-softmax_fp32_256": {
        0x1874: "whether exp scales its argument: both ways give the same but for results far below the bound",
    },
}
#: Kinds of which our own kernels may not lose one: they change what is computed whatever the schedule.
ALWAYS_CAUGHT = {"A and B swapped", "LDS offset shifted", "predicate inverted"}


def survivors(results: Sequence[Trial]) -> list[Trial]:
    return [result for result in results if not result.caught]


def unexplained(subject: Subject, results: Sequence[Trial]) -> list[str]:
    known = EQUIVALENT.get(subject.name, {})
    return [str(result.mutant) for result in survivors(results) if result.mutant.instruction.address not in known]


@pytest.mark.parametrize(
    ("name", "every"),
    [("gfx950-gemm_bf16_64x64x32", 5), ("gfx942-gemm_bf16_64x64x32", 5), ("gfx950-softmax_fp32_256", 1)],
)
def test_mutants_of_triton_kernels(name: str, every: int) -> None:
    """Every mutant in a sample of a GEMM per architecture and of a softmax is caught or known to be equivalent."""
    subject = triton_subject(KERNELS[name])
    results = trials(subject, every)
    assert len(results) > 15
    assert not unexplained(subject, results)


def test_mutants_of_our_kernels(small_cache: Path) -> None:
    """Verification catches mutants of forward kernels: all that change the computation, nearly all of the rest."""
    results = [result for subject in cache_subjects(small_cache) for result in trials(subject, every=11)]
    lost = survivors(results)
    assert len(results) > 50
    assert not [str(result.mutant) for result in lost if result.mutant.kind in ALWAYS_CAUGHT]
    # Redundant waits and a K tile of zeros too many are no faults; the compiler writes some of them.
    assert len(lost) <= 0.12 * len(results), [str(result.mutant) for result in lost]


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in KERNELS if re.search("gemm|conv|softmax|attention", name)])
def test_kill_rate_of_every_kernel(name: str) -> None:
    """All mutants of every kernel: at least 97 of 100 are caught, and operand swaps without exception."""
    results = trials(triton_subject(KERNELS[name]))
    lost = survivors(results)
    assert len(lost) <= 0.03 * len(results), [str(result.mutant) for result in lost]
    assert not [result for result in lost if result.mutant.kind == "A and B swapped"]
