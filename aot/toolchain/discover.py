"""Which toolchain this machine compiles with, and why.

Order: the name given (`--toolchain`), `ROCKE_AOT_LLVM`, `ROCM_PATH`, /opt/rocm, the distribution's versioned LLVM from
the newest known flavor down, llvmlite's own LLVM. A name is `rocm`, `llvm-22` (any known major), `llvmlite`, or the
path of an LLVM prefix, a libLLVM or a clang; `@libllvm`, `@llvmlite` or `@clang` behind it chooses the engine.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from aot.toolchain import llvm_c
from aot.toolchain.engine import ENGINE_KINDS
from aot.toolchain.errors import ToolchainChoiceError, ToolchainMissingError, ToolchainVersionError
from aot.toolchain.file_digest import file_sha256, remembered
from aot.toolchain.toolchain import Toolchain, flavor_of
from aot.workers.child import MachineError, run_child

ENV_CHOICE = "ROCKE_AOT_LLVM"
ENV_ROCM = "ROCM_PATH"
ROCM_FOLDER = Path("/opt/rocm")
DISTRIBUTION_MAJORS = (22, 21, 20)
INSTALL_SYSTEM = "apt-get install clang-22 lld-22 llvm-22"
INSTALL_LINKER = "scripts/setup lld, or pip install ziglang"
INSTALL_LLVMLITE = "pip install llvmlite"
# The signature in .comment where no ld.lld exists; a change of our layout changes it.
OWN_LINKER = "rocke-aot 1"
# A tool tells its version at once; from a cold disk over a network it takes seconds.
_ANSWER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The files of one LLVM, before anything of them was run or loaded."""

    name: str
    libllvm: Path | None = None
    clang: Path | None = None
    linker: tuple[str, ...] = ()
    objdump: Path | None = None
    has_llvmlite: bool = False

    @property
    def engines(self) -> tuple[str, ...]:
        present = {"libllvm": self.libllvm, "llvmlite": self.has_llvmlite, "clang": self.clang}
        return tuple(kind for kind in ENGINE_KINDS if present[kind])


def find_toolchain(name: str | None = None) -> Toolchain:
    """The toolchain to compile with.

    Raises ToolchainChoiceError for a name that is nothing usable, ToolchainVersionError for an LLVM without a flavor,
    ToolchainMissingError if this machine has no LLVM for AMDGPU at all.
    """
    for choice, reason in ((name, "--toolchain"), (os.environ.get(ENV_CHOICE), ENV_CHOICE)):
        if choice:
            base, engine = split_choice(choice)
            return make_toolchain(named_parts(base), f"{reason} {choice}", engine)
    for parts, reason in candidates():
        try:
            return make_toolchain(parts, reason)
        except (ToolchainVersionError, ToolchainMissingError):
            continue
    raise ToolchainMissingError("no LLVM for AMDGPU on this machine", f"{INSTALL_SYSTEM}, or {INSTALL_LLVMLITE}")


def candidates() -> Iterator[tuple[Parts, str]]:
    """Every LLVM of this machine in order of preference, with the reason for its place. Nothing is loaded yet."""
    rocm = os.environ.get(ENV_ROCM)
    for root, reason in ((Path(rocm) if rocm else None, f"{ENV_ROCM}={rocm}"), (ROCM_FOLDER, f"{ROCM_FOLDER} exists")):
        if root is not None and (parts := rocm_parts(root)).engines:
            yield parts, reason
    for major in DISTRIBUTION_MAJORS:
        if (parts := distribution_parts(major)).engines:
            yield parts, f"the distribution has {parts.name}"
    if has_llvmlite():
        yield llvmlite_parts(), "llvmlite is installed"


def split_choice(choice: str) -> tuple[str, str | None]:
    """`llvm-22@clang` as (`llvm-22`, `clang`)."""
    base, at, engine = choice.rpartition("@")
    return (base, engine) if at and engine in ENGINE_KINDS else (choice, None)


def named_parts(name: str) -> Parts:
    """The LLVM that a name or path means. Raises ToolchainChoiceError."""
    if name == "rocm":
        parts = rocm_parts(Path(os.environ.get(ENV_ROCM) or ROCM_FOLDER))
    elif name == "llvmlite":
        parts = llvmlite_parts() if has_llvmlite() else Parts(name)
    elif version := re.fullmatch(r"llvm-(\d+)", name):
        parts = distribution_parts(int(version[1]))
    elif os.sep in name:
        parts = path_parts(Path(name))
    else:
        known = ["rocm", *(f"llvm-{major}" for major in DISTRIBUTION_MAJORS), "llvmlite"]
        raise ToolchainChoiceError(f"unknown toolchain {name!r}; known: {', '.join(known)}, or a path with a / in it")
    if not parts.engines:
        raise ToolchainChoiceError(f"toolchain {name!r} is not on this machine; `rocke-aot doctor` lists what is")
    return parts


def rocm_parts(root: Path) -> Parts:
    """The LLVM inside a ROCm installation."""
    return replace(prefix_parts(root / "llvm"), name="rocm")


def prefix_parts(prefix: Path) -> Parts:
    """An LLVM installed under one prefix (bin/, lib/)."""
    linker = _executable(prefix / "bin" / "ld.lld")
    return Parts(
        name=str(prefix),
        libllvm=_newest(str(prefix / "lib" / "libLLVM*.so*")),
        clang=_executable(prefix / "bin" / "clang"),
        linker=(str(linker),) if linker else (),
        objdump=_executable(prefix / "bin" / "llvm-objdump"),
    )


def distribution_parts(major: int) -> Parts:
    """Debian's (and its children's) LLVM of one major version."""
    prefix = prefix_parts(Path(f"/usr/lib/llvm-{major}"))
    return Parts(
        name=f"llvm-{major}",
        libllvm=prefix.libllvm or _newest(f"/usr/lib/*-linux-gnu/libLLVM.so.{major}*"),
        clang=prefix.clang or _which(f"clang-{major}"),
        linker=prefix.linker or _command(f"ld.lld-{major}"),
        objdump=prefix.objdump or _which(f"llvm-objdump-{major}"),
    )


def llvmlite_parts() -> Parts:
    """llvmlite's own LLVM, with a linker from the distribution, PyPI, or the path."""
    linkers = (*(_command(f"ld.lld-{major}") for major in DISTRIBUTION_MAJORS), ziglang_linker(), _command("ld.lld"))
    return Parts("llvmlite", linker=next(filter(None, linkers), ()), has_llvmlite=True)


def path_parts(path: Path) -> Parts:
    """What a path means: an LLVM or ROCm prefix, a libLLVM, or a clang (with its neighbours)."""
    if (path / "llvm" / "bin").is_dir():
        return rocm_parts(path)
    if path.is_dir():
        return prefix_parts(path)
    if not path.is_file():
        raise ToolchainChoiceError(f"toolchain path {path} does not exist")
    if path.name.startswith("libLLVM"):
        neighbours = prefix_parts(path.parent.parent)
        linker = neighbours.linker or llvmlite_parts().linker
        return Parts(str(path), libllvm=path, linker=linker, objdump=neighbours.objdump)
    neighbours = prefix_parts(path.parent.parent)
    return Parts(str(path), clang=path, linker=neighbours.linker or llvmlite_parts().linker, objdump=neighbours.objdump)


def has_llvmlite() -> bool:
    """Whether llvmlite can be imported; not imported here."""
    return importlib.util.find_spec("llvmlite") is not None


def ziglang_linker() -> tuple[str, ...]:
    """ld.lld inside the ziglang wheel, if that is installed."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return ()
    zig = Path(spec.submodule_search_locations[0]) / "zig"
    return (str(zig), "ld.lld") if zig.is_file() else ()


def make_toolchain(parts: Parts, reason: str, engine: str | None = None) -> Toolchain:
    """Load or run the parts for their versions and hash what will compile.

    A libLLVM that cannot be used gives way to the clang beside it, unless `engine` asks for it. Raises
    ToolchainChoiceError if `engine` is not among the parts' engines.
    """
    if engine is None and parts.clang and parts.libllvm and (problem := _problem_of(parts.libllvm)):
        parts, reason = replace(parts, libllvm=None), f"{reason}; by its clang, because: {problem}"
    kind = engine or parts.engines[0]
    if kind not in parts.engines:
        raise ToolchainChoiceError(f"toolchain {parts.name} has no engine {kind!r}; it has: {', '.join(parts.engines)}")
    version = _llvm_version(parts, kind)
    linker_version = linker_signature(parts.linker) if parts.linker else OWN_LINKER
    linker_digest = file_sha256(Path(parts.linker[0])) if parts.linker else OWN_LINKER
    digest = hashlib.sha256(f"{compiler_sha256(parts, kind)}\0{linker_digest}".encode()).hexdigest()
    return Toolchain(
        name=parts.name,
        chosen_because=reason,
        llvm_version=version,
        flavor=flavor_of(version),
        engine=kind,
        engines=parts.engines,
        compiler_digest=digest,
        linker_version=linker_version,
        libllvm=parts.libllvm,
        clang=parts.clang,
        linker=parts.linker,
        objdump=parts.objdump,
    )


def compiler_sha256(parts: Parts, engine: str) -> str:
    """Digest of the library that generates the code. A clang that links libLLVM dynamically is that library."""
    if engine == "llvmlite":
        from aot.toolchain.llvmlite_symbols import library_path

        return file_sha256(library_path())
    if parts.libllvm is not None and engine == "libllvm":
        return file_sha256(parts.libllvm)
    clang = parts.clang
    assert clang is not None
    return hashlib.sha256("\0".join(map(file_sha256, (clang, *_llvm_libraries(clang)))).encode()).hexdigest()


def linker_signature(command: tuple[str, ...]) -> str:
    """What this ld.lld writes into `.comment` behind `Linker: `."""

    def ask(_path: Path) -> str:
        text = _run((*command, "--version"))
        return text.removesuffix("(compatible with GNU linkers)").strip()

    return remembered("lld-version", Path(command[0]), ask)


def _library_version(library: Path) -> str:
    return remembered("llvm-version", library, lambda path: llvm_c.version(llvm_c.load(path)))


def _problem_of(library: Path) -> str | None:
    """Why a libLLVM cannot be used, if it cannot."""
    try:
        _library_version(library)
    except ToolchainMissingError as error:
        return error.what
    return None


def _llvm_version(parts: Parts, engine: str) -> str:
    if engine == "llvmlite":
        from aot.toolchain.engine_llvmlite import llvm_version

        return llvm_version()
    if engine == "libllvm" and parts.libllvm is not None:
        return _library_version(parts.libllvm)
    clang = parts.clang
    assert clang is not None
    return remembered("clang-version", clang, _clang_version)


def _clang_version(clang: Path) -> str:
    found = re.search(r"clang version (\d+\.\d+\.\d+)", text := _run((str(clang), "--version")))
    if found is None:
        raise ToolchainVersionError(f"{clang} does not tell its version: {text.splitlines()[:1]}")
    return found[1]


def _run(command: tuple[str, ...]) -> str:
    try:
        result = run_child(command, seconds=_ANSWER_SECONDS)
    except MachineError as error:
        raise ToolchainMissingError(str(error), "scripts/setup") from error
    if result.code != 0:
        what = f"cannot run {' '.join(command)}: {result.message or f'exit code {result.code}'}"
        raise ToolchainMissingError(what, "scripts/setup")
    return result.stdout.decode("utf-8", "replace").strip()


@functools.lru_cache(maxsize=8)
def _llvm_libraries(program: Path) -> tuple[Path, ...]:
    """The libLLVM and libclang-cpp that a program links dynamically, as its loader finds them."""
    listing = run_child(["ldd", str(program)], seconds=_ANSWER_SECONDS).stdout.decode("utf-8", "replace")
    found = re.findall(r"lib(?:LLVM|clang-cpp)\S* => (/\S+)", listing)
    return tuple(sorted(Path(path) for path in found))


def _newest(pattern: str) -> Path | None:
    """The real file that a glob over library names means; the highest version if there are several."""
    found = Path("/").glob(pattern.lstrip("/"))
    real = {path.resolve() for path in found if re.fullmatch(r"libLLVM(-\d+)?\.so[\d.git]*", path.name)}
    return max(real, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)], default=None)


def _executable(path: Path) -> Path | None:
    return path if os.access(path, os.X_OK) and path.is_file() else None


def _which(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _command(name: str) -> tuple[str, ...]:
    found = shutil.which(name)
    return (found,) if found else ()
