"""An emulator of the CDNA3 and CDNA4 instruction sets that runs final code objects on a CPU, and a sanitizer.

`run` executes a kernel from its code object: LLVM's own disassembler reads it, `decode` knows each operand and
modifier, one table (`isa`) gives every instruction its meaning, `lower` says how operands and results get to it and
from it, and one of two engines evaluates that: "llvm" (handlers over 64 lanes, compiled from the table) or "numpy"
(slow, the cross-check). `launch` sets waves up; `state` is what they and device memory consist of.

Modelled: the state of waves and workgroups as the kernel descriptor sets it up; EXEC, VCC, SCC, M0, MODE (denormals);
AGPRs; SDWA, DPP, VOP3 and VOP3P modifiers; raw buffers with range checks; LDS, scratch, flat, global and scalar
memory; atomics in lane order; barriers, with waves in seeded random order between them and workgroups in seeded
random order.

Not modelled, and refused: rounding modes other than to nearest even, MODE without IEEE mode or DX10 clamp, output
scales (which IEEE mode ignores), buffers with stride or swizzle, transposed reads and row swaps under a partial EXEC,
wave32, traps, exceptions, 8-bit floats and scaled matrix instructions. Not modelled, and of no influence on results of
right programs: timing, caches, hazards that need s_nop.

Numerics: f16, f32 and f64 arithmetic is IEEE with one rounding; signalling NaNs are treated as with IEEE mode on. Of
several NaN operands the first one is the result, made quiet; which one the hardware takes is not documented.
Approximations of the hardware (exp, log, rcp, rsq, sqrt, sin, cos) give the correctly rounded value with f32 denormals
flushed. Matrix instructions add in f32, one fused multiply-add per k in an order that `isa.mfma` states, denormals
kept (the hardware adds in another order, within any error bound of use). A 16-bit load into half a register keeps the
other half.

Uninitialised vector registers hold a NaN pattern, so that what depends on them shows in the numbers.

Sanitizer, always on: see `faults` for what it finds, `engine_numpy.sanitizer` for its model of outstanding memory
instructions and `state.stores` for that of stores to device memory.
"""

from __future__ import annotations

from aot.emulator.report import FaultError, Report
from aot.emulator.run import EMULATOR_VERSION, run
from aot.emulator.state.memory import Memory

__all__ = ["EMULATOR_VERSION", "FaultError", "Memory", "Report", "run"]
