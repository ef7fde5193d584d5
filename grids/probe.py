"""The probe: the problem on which published rules judge a kernel that is compiled for unknown shapes.

A probe never enters the code. It is grouped and never pointwise, so that no shortcut for those cases is taken.
"""

from __future__ import annotations

from cache_schema.problem import ConvProblem

#: Channels per group, in and out; the contiguous run of every vector load.
PROBE_CHANNELS = 64
#: A 3x3 filter.
PROBE_TAPS = 9


def probe(direction: str, dtype: str, *, stride: int = 1, dilation: int = 1) -> ConvProblem:
    """The probe of a capability: 3x3, padded to the same size, two groups of 64 channels."""
    groups = 2
    channels = groups * PROBE_CHANNELS
    image = 16 + 2 * (dilation - 1)
    return ConvProblem(
        direction=direction,
        dtype=dtype,
        n=1,
        c=channels,
        h=image,
        w=image,
        k=channels,
        y=3,
        x=3,
        stride_h=stride,
        stride_w=stride,
        pad_h=dilation,
        pad_w=dilation,
        dilation_h=dilation,
        dilation_w=dilation,
        groups=groups,
    )
