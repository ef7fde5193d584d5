# mypy: ignore-errors
# ruff: noqa: N803 (Triton writes its compile-time parameters in capitals)
"""Triton sources of the kernels that the emulator is judged by: compiled by a toolchain that is not ours.

Runs only inside the Triton environment (`compile_kernels.py` beside this file); the tests read the code objects.
All matrices are row-major with run-time extents and leading dimensions, and every edge is masked.
"""

import triton
import triton.language as tl


@triton.jit
def gemm(
    a, b, c, m_extent, n_extent, k_extent, a_stride, b_stride, c_stride,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """C = A @ B with f32 accumulation, C in the dtype of its pointer."""
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    cols = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    ks = tl.arange(0, TILE_K)
    a_ptrs = a + rows[:, None] * a_stride + ks[None, :]
    b_ptrs = b + ks[:, None] * b_stride + cols[None, :]
    accumulator = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for k in range(0, k_extent, TILE_K):
        left = k_extent - k
        a_tile = tl.load(a_ptrs, mask=(rows[:, None] < m_extent) & (ks[None, :] < left), other=0.0)
        b_tile = tl.load(b_ptrs, mask=(ks[:, None] < left) & (cols[None, :] < n_extent), other=0.0)
        accumulator = tl.dot(a_tile, b_tile, accumulator, input_precision="ieee")
        a_ptrs += TILE_K
        b_ptrs += TILE_K * b_stride
    c_ptrs = c + rows[:, None] * c_stride + cols[None, :]
    inside = (rows[:, None] < m_extent) & (cols[None, :] < n_extent)
    tl.store(c_ptrs, accumulator.to(c.dtype.element_ty), mask=inside)


@triton.jit
def softmax(x, y, n_cols, x_stride, y_stride, TILE: tl.constexpr):
    """One row per program: y = exp(x - max) / sum."""
    row = tl.program_id(0)
    cols = tl.arange(0, TILE)
    values = tl.load(x + row * x_stride + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(values - tl.max(values, axis=0))
    result = numerator / tl.sum(numerator, axis=0)
    tl.store(y + row * y_stride + cols, result.to(y.dtype.element_ty), mask=cols < n_cols)


@triton.jit
def attention(q, k, v, o, length, scale_log2, HEAD: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr):
    """Streaming softmax attention of one head, (length, HEAD) row-major; program_id(1) is the head."""
    base = tl.program_id(1) * length * HEAD
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    dims = tl.arange(0, HEAD)
    q_tile = tl.load(q + base + rows[:, None] * HEAD + dims[None, :], mask=rows[:, None] < length, other=0.0)
    row_max = tl.full((TILE_M,), -float("inf"), tl.float32)
    row_sum = tl.zeros((TILE_M,), tl.float32)
    accumulator = tl.zeros((TILE_M, HEAD), tl.float32)
    for start in range(0, length, TILE_N):
        keys = start + tl.arange(0, TILE_N)
        k_tile = tl.load(k + base + keys[None, :] * HEAD + dims[:, None], mask=keys[None, :] < length, other=0.0)
        scores = tl.dot(q_tile, k_tile) * scale_log2
        scores = tl.where(keys[None, :] < length, scores, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_max[:, None])
        rescale = tl.exp2(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(weights, axis=1)
        v_tile = tl.load(v + base + keys[:, None] * HEAD + dims[None, :], mask=keys[:, None] < length, other=0.0)
        accumulator = tl.dot(weights.to(v.dtype.element_ty), v_tile, accumulator * rescale[:, None])
        row_max = new_max
    result = accumulator / row_sum[:, None]
    tl.store(
        o + base + rows[:, None] * HEAD + dims[None, :], result.to(o.dtype.element_ty), mask=rows[:, None] < length
    )


@triton.jit
def scatter_add(x, index, y, count, TILE: tl.constexpr):
    """y[index[i]] += x[i] by atomics in the dtype of y."""
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = at < count
    values = tl.load(x + at, mask=inside, other=0.0)
    where = tl.load(index + at, mask=inside, other=0)
    tl.atomic_add(y + where, values, mask=inside, sem="relaxed")


@triton.jit
def row_add(x, y, n_rows, n_cols, TILE: tl.constexpr):
    """y[j] += sum over the program's row of x: contiguous atomics, which may be packed two to a dword."""
    row = tl.program_id(0)
    cols = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = (cols < n_cols) & (row < n_rows)
    values = tl.load(x + row * n_cols + cols, mask=inside, other=0.0)
    tl.atomic_add(y + cols, values, mask=inside, sem="relaxed")


@triton.jit
def conv(
    x, w, y, n_extent, h_extent, w_extent, c_extent, k_extent, r_extent, s_extent, p_extent, q_extent,
    stride_h, stride_w, pad_h, pad_w, dil_h, dil_w,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """Forward convolution as implicit GEMM, x NHWC, w KRSC, y NPQK: GEMM rows are n, p, q; the reduction is r, s, c."""
    gemm_m = n_extent * p_extent * q_extent
    gemm_k = r_extent * s_extent * c_extent
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    cols = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    q_at = rows % q_extent
    p_at = (rows // q_extent) % p_extent
    n_at = rows // (q_extent * p_extent)
    h_base = p_at * stride_h - pad_h
    w_base = q_at * stride_w - pad_w
    ks = tl.arange(0, TILE_K)
    accumulator = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for k in range(0, gemm_k, TILE_K):
        k_at = k + ks
        c_at = k_at % c_extent
        s_at = (k_at // c_extent) % s_extent
        r_at = k_at // (c_extent * s_extent)
        h_at = h_base[:, None] + r_at[None, :] * dil_h
        w_at = w_base[:, None] + s_at[None, :] * dil_w
        inside = (rows[:, None] < gemm_m) & (k_at[None, :] < gemm_k)
        inside &= (h_at >= 0) & (h_at < h_extent) & (w_at >= 0) & (w_at < w_extent)
        x_at = ((n_at[:, None] * h_extent + h_at) * w_extent + w_at) * c_extent + c_at[None, :]
        x_tile = tl.load(x + x_at, mask=inside, other=0.0)
        w_inside = (k_at[:, None] < gemm_k) & (cols[None, :] < k_extent)
        w_tile = tl.load(w + cols[None, :] * gemm_k + k_at[:, None], mask=w_inside, other=0.0)
        accumulator = tl.dot(x_tile, w_tile, accumulator)
    y_inside = (rows[:, None] < gemm_m) & (cols[None, :] < k_extent)
    tl.store(y + rows[:, None] * k_extent + cols[None, :], accumulator.to(y.dtype.element_ty), mask=y_inside)
