# mypy: ignore-errors
"""Compiles the variants with Triton: compile_kernels.py OUT_DIR [--committed] [--arch NAME].

Runs inside an environment that has Triton 3.9.0 (see `environment.py`); needs no GPU. Writes one stripped code object
per variant and architecture, and `kernels.json` with what a launch needs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import kernels
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from variants import ARCHITECTURES, FLOAT_SCALARS, POINTERS, SCALARS, VARIANTS


def source(variant):
    """The Triton source with its signature; pointers are promised to be 16-byte aligned."""
    pointers = dict(zip(POINTERS[variant.kernel], variant.pointers, strict=True))
    scalars = SCALARS[variant.kernel]
    signature = {name: "*" + dtype for name, dtype in pointers.items()}
    signature |= {name: "fp32" if name in FLOAT_SCALARS else "i32" for name in scalars}
    signature |= dict.fromkeys(variant.constants, "constexpr")
    names = [*pointers, *scalars]
    aligned = set(pointers) | set(variant.aligned)
    attributes = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in aligned}
    return ASTSource(getattr(kernels, variant.kernel), signature, variant.constants, attributes)


def strip(code: bytes, path: Path, tool: str) -> None:
    """Writes the code object without symbols and debug sections that no loader reads."""
    path.write_bytes(code)
    subprocess.run([tool, "--strip-all", str(path)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--committed", action="store_true", help="only the variants that are kept as test data")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES)
    parser.add_argument("--strip", default="llvm-strip-22")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    entries = []
    for arch in options.arch or ARCHITECTURES:
        for variant in VARIANTS:
            if options.committed and not variant.committed:
                continue
            compiled = triton.compile(
                source(variant),
                target=GPUTarget("hip", arch, 64),
                options={"num_warps": variant.warps, "num_stages": variant.stages, **variant.options},
            )
            file = f"{arch}-{variant.name}.hsaco"
            strip(compiled.asm["hsaco"], options.out / file, options.strip)
            entries.append(
                {
                    "file": file,
                    "variant": variant.name,
                    "arch": arch,
                    "symbol": compiled.metadata.name,
                    "block": 64 * variant.warps,
                    "dynamic_lds": compiled.metadata.shared,
                }
            )
    index = {"triton": triton.__version__, "kernels": entries}
    (options.out / "kernels.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
