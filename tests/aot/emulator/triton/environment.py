"""The Python environment that holds Triton, apart from the project's own: made on first use, kept under build/."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = ("triton==3.9.0", "numpy", "setuptools")
DEFAULT_FOLDER = Path(__file__).parents[4] / "build" / "triton-venv"


def python(folder: Path | None = None) -> Path:
    """The interpreter of the environment, which is created if it is not there. Raises CalledProcessError."""
    folder = folder or Path(os.environ.get("ROCKE_AOT_TRITON_VENV", DEFAULT_FOLDER))
    interpreter = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != "\n".join(REQUIREMENTS):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(interpreter), "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        ready.write_text("\n".join(REQUIREMENTS))
    return interpreter


def compile_kernels(out: Path, *arguments: str) -> None:
    """Runs `compile_kernels.py` in the environment, with a compile cache of its own beside the output."""
    script = Path(__file__).parent / "compile_kernels.py"
    environment = {**os.environ, "TRITON_CACHE_DIR": str(out / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    subprocess.run([str(python()), str(script), str(out), *arguments], check=True, env=environment)
