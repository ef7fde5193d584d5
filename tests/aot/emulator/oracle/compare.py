"""When a result of the emulator counts as that of the oracle."""

from __future__ import annotations

from tests.aot.emulator.oracle import floats
from tests.aot.emulator.oracle.machine import LANES, Words

#: Elementary functions: how far, in units in the last place, two right implementations may be apart. The hardware
#: promises 1 ulp; the oracle's own rounding of intermediate steps adds to it.
ULPS = {
    "v_exp_f32": 1, "v_log_f32": 1, "v_rcp_f32": 1, "v_rcp_iflag_f32": 1, "v_rsq_f32": 2, "v_sqrt_f32": 1,
    "v_exp_f16": 1, "v_log_f16": 1, "v_rcp_f16": 1, "v_rsq_f16": 2, "v_sqrt_f16": 1,
    # The f64 forms are seeds for an iteration and promise about 2^-22.
    "v_rcp_f64": 1 << 31, "v_rsq_f64": 1 << 31, "v_sqrt_f64": 1 << 31,
    # Whether the product with 32767 or 65535 is rounded before it is made an integer is not stated.
    "v_cvt_pknorm_i16_f32": 1, "v_cvt_pknorm_u16_f32": 1, "v_cvt_pknorm_i16_f16": 1, "v_cvt_pknorm_u16_f16": 1,
    "v_cvt_norm_i16_f16": 1, "v_cvt_norm_u16_f16": 1,
}  # fmt: skip


def same(kind: str, got: int, want: int, width: int, ulps: int = 0) -> bool:
    """Whether `width` bits agree, element by element of the type: any NaN is any other, numbers within `ulps`."""
    if kind not in floats.FORMATS:
        return got == want or (ulps > 0 and _close_halves(got, want, width, ulps))
    form = floats.FORMATS[kind]
    mask = (1 << form.width) - 1
    for low in range(0, max(width - form.width, 0) + 1, form.width):
        a, b = got >> low & mask, want >> low & mask
        if floats.is_nan(form, a) and floats.is_nan(form, b):
            continue
        if a == b:
            continue
        if floats.is_nan(form, a) or floats.is_nan(form, b) or floats.ulps_apart(form, a, b) > ulps:
            return False
    return True


def _close_halves(got: int, want: int, width: int, steps: int) -> bool:
    """Whether each 16-bit integer of a packed result is within `steps`."""
    halves = range(0, width, 16)
    return all(abs((got >> low & 0xFFFF) - (want >> low & 0xFFFF)) <= steps for low in halves)


def wrong_lanes(kind: str, words: int, got: Words, want: Words, ulps: int = 0) -> list[int]:
    """Lanes in which the first `words` planes (a result of that type) or any further plane (exact) differ."""
    found = []
    for lane in range(LANES):
        a = sum(int(got[i, lane]) << 32 * i for i in range(words))
        b = sum(int(want[i, lane]) << 32 * i for i in range(words))
        exact = all(int(got[i, lane]) == int(want[i, lane]) for i in range(words, got.shape[0]))
        if not (exact and (not words or same(kind, a, b, 32 * words, ulps))):
            found.append(lane)
    return found
