"""What the text of backward-data kernels holds and what it does not."""

from __future__ import annotations

import re

import pytest

from aot.families import emit
from aot.kernels.dgrad_arguments import dgrad_arguments
from cache_schema.identity import Identity
from tests.aot.dgrad_kernels import dgrad

SAMPLE = [
    dgrad("gfx950", "bf16", folded=True),
    dgrad("gfx950", "fp16", epilogue="cshuffle", pipeline="compv3", vector_size_b=8, vector_size_c=8),
    dgrad("gfx942", "bf16", folded=True, epilogue="cshuffle", pipeline="compv4", vector_size_b=2, vector_size_c=2),
    dgrad("gfx942", "fp16", vector_size_b=1),
]


def table_reads(text: str) -> list[tuple[str, str]]:
    """(type, address) of every load through the table pointer; addresses are constant byte offsets or names."""
    place = dgrad_arguments().offsets["sub_gemm_buf"]
    segment = re.search(r"(%\w+) = call .* @llvm.amdgcn.kernarg.segment.ptr", text)
    assert segment is not None
    at = re.search(rf"(%\w+) = getelementptr inbounds i8, ptr addrspace\(4\) {segment[1]}, i32 {place}\n", text)
    assert at is not None
    pointers = dict.fromkeys(re.findall(rf"(%\w+) = load ptr addrspace\(1\), ptr addrspace\(4\) {at[1]},", text), "0")
    assert len(pointers) == 1
    for name, base, offset in re.findall(
        r"(%\w+) = getelementptr inbounds i8, ptr addrspace\(1\) (%\w+), i32 (\S+)", text
    ):
        if base in pointers:
            pointers[name] = offset if pointers[base] == "0" else f"{pointers[base]}+{offset}"
    loads = re.findall(r"= load (<\d+ x i32>|i32), ptr addrspace\(1\) (%\w+),", text)
    return [(kind, pointers[pointer]) for kind, pointer in loads if pointer in pointers]


def test_the_folded_kernel_reads_eight_words() -> None:
    """Of the table only words 22 to 29 are read, in one load at a constant place; nothing is searched."""
    text = emit(dgrad(folded=True), "llvm22").ir
    assert table_reads(text) == [("<8 x i32>", "88")]
    assert "ballot" not in text


def test_the_tilde_kernel_searches_and_loads() -> None:
    """A vote over record starts, 21 record words, 8 magic words, all at places that depend on the vote."""
    text = emit(dgrad(), "llvm22").ir
    reads = table_reads(text)
    assert [kind for kind, _ in reads] == ["<16 x i32>", "<4 x i32>", "<1 x i32>", "<8 x i32>"] or [
        kind for kind, _ in reads
    ] == ["<16 x i32>", "<4 x i32>", "i32", "<8 x i32>"]
    assert all(address.startswith("%") for _, address in reads)
    assert text.count("@llvm.amdgcn.ballot.i64(i1 %") == 1


@pytest.mark.parametrize("identity", SAMPLE)
def test_nothing_is_divided(identity: Identity) -> None:
    """Every quotient is a product with a magic number, in prologue, K loops and epilogue."""
    text = emit(identity, "llvm22").ir
    assert re.findall(r"\b(udiv|sdiv|urem|srem|fdiv)\b", text) == []
    assert text.count("mul nuw i64") > 0


@pytest.mark.parametrize("identity", SAMPLE)
def test_emission_is_a_function_of_the_identity(identity: Identity) -> None:
    """Equal identities give equal text, in every flavor; no problem is anywhere near."""
    for flavor in ("llvm20", "llvm22"):
        assert emit(identity, flavor) == emit(identity, flavor)


def test_two_k_loops_where_the_policy_says_so() -> None:
    """uniform_k_decode is a choice between two loops at run time; without it there is the general one alone."""
    both, one = (emit(dgrad(uniform_k_decode=flag), "llvm22").ir for flag in (True, False))
    assert both.count("@llvm.amdgcn.mfma") - 1 == 2 * (one.count("@llvm.amdgcn.mfma") - 1)


def test_transposing_reads_only_for_k_outer_tiles() -> None:
    """B comes through ds_read_b64_tr_b16 exactly where the identity says K-outer."""
    outer, plain = (emit(dgrad(lds_k_outer=flag), "llvm22").ir for flag in (True, False))
    assert "ds.read.tr16.b64" in outer
    assert "ds.read.tr16.b64" not in plain
