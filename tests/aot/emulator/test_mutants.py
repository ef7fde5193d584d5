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

_BUFFERS = "two LDS buffers and a barrier keep the same accesses apart; one of them may go"
_STALE = "the zero of a masked element of A; B is zero there too, and the register holds part of an address, no NaN"
_DENORMAL = "the register holds a small integer, which is a denormal far below any bound as an accumulator"
#: Kernel -> address of a survivor -> why it is no fault, or none that numbers can show.
EQUIVALENT: dict[str, dict[int, str]] = {
    "gfx950-gemm_bf16_64x64x32": {
        **dict.fromkeys((0x1ECC, 0x1ED0, 0x1EF0), _BUFFERS),
        **dict.fromkeys((0x1838, 0x189C, 0x18E0, 0x18E4, 0x196C, 0x1970, 0x19F8, 0x19FC), _STALE),
        **dict.fromkeys((0x1A94, 0x1A98, 0x1B2C, 0x1B30), _STALE),
        **dict.fromkeys((0x1E40, 0x224C), _DENORMAL),
        0x22C0: "one K tile more, of which every load is masked to zero",
    },
    "gfx942-attention_fp16_64x32": dict.fromkeys(
        (0x1EB8, 0x1EC8), "the factor that rescales an accumulator which is zero in the first iteration"
    ),
    "gfx950-attention_fp16_64x32": dict.fromkeys(
        (0x239C, 0x27B8), "zeros for keys behind the end, whose scores are replaced by minus infinity in any case"
    ),
    "gfx950-softmax_fp32_256": {
        0x1874: "whether exp scales its argument: both ways give the same but for results far below the bound",
    },
}
#: Kinds of which no kernel may lose one: they change what is computed, whatever the schedule.
ALWAYS_CAUGHT = {"A and B swapped", "LDS offset shifted"}


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
    assert not [str(result.mutant) for result in lost if result.mutant.kind in ALWAYS_CAUGHT | {"predicate inverted"}]
    # The compiler writes waits that an earlier one makes superfluous, and a K tile of zeros too many is no fault.
    assert len(lost) <= 0.12 * len(results), [str(result.mutant) for result in lost]


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in KERNELS if re.search("gemm|conv|softmax|attention", name)])
def test_kill_rate_of_every_kernel(name: str) -> None:
    """All mutants of every kernel: about nine of ten are caught, and of wrong operands and early reads all."""
    subject = triton_subject(KERNELS[name])
    results = trials(subject)
    lost = survivors(results)
    assert len(lost) <= 0.12 * len(results), [str(result.mutant) for result in lost]
    waits = {"wait dropped", "wait relaxed"} if "gemm" in name else set()
    serious = [result for result in lost if result.mutant.kind in ALWAYS_CAUGHT | waits]
    assert not unexplained(subject, serious)
