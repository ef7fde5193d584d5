"""Machine code of handlers: compiled once, kept in the user's cache folder, loaded into the process.

A *pack* is one object file with the handlers of a set of forms; its index lists the forms. Packs are keyed by the
sources of the emulator's tables and generators, LLVM's version and the host CPU, so a change of any of them starts a
new folder. A damaged or foreign pack is a miss.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from aot.emulator.decode.form import Form
from aot.emulator.engine_llvm.handlers import write_handler
from aot.emulator.engine_llvm.ops import Function, module_text
from aot.emulator.engine_llvm.runtime.buffer import buffer_functions
from aot.emulator.engine_llvm.runtime.core import core_functions
from aot.emulator.engine_llvm.runtime.memory import memory_functions
from aot.emulator.engine_llvm.runtime.names import HELPER_NAMES
from aot.emulator.engine_llvm.runtime.schedule import schedule_functions
from aot.emulator.engine_llvm.runtime.stores import store_functions
from cache_schema.atomic_file import replace_file
from cache_schema.errors import DeliveryError, RequestError

_RUNTIME = "runtime"
_MAGIC = b"rocke-aot handlers 1\n"
#: Folders of other versions that are kept: a few checkouts or LLVMs in turn, not every edit of a table.
KEPT_VERSIONS = 4
_DYING = "old-"


def handler_symbol(form: Form, keeps_denormals: bool) -> str:
    """A name that two forms share only if they are equal."""
    return "h_" + hashlib.sha256(repr((form, keeps_denormals)).encode()).hexdigest()[:24]


def cache_folder() -> Path:
    """The folder of this version of the emulator on this machine."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "rocke-aot" / "emulator" / _key()


def _sources_digest() -> bytes:
    digest = hashlib.sha256(_MAGIC)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


# Taken at import: what runs is what was imported, not what a file becomes while the process lives.
_SOURCES = _sources_digest()


@lru_cache(maxsize=1)
def _key() -> str:
    machine = repr((llvm.llvm_version_info, llvmlite.__version__, _cpu())).encode()
    return hashlib.sha256(_SOURCES + machine).hexdigest()[:32]


@lru_cache(maxsize=1)
def _cpu() -> tuple[str, str]:
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


class CodeCache:
    """Addresses of handlers and of the runtime in this process. Handlers stay loaded as long as the object lives."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=_cpu()[0], features=_cpu()[1], opt=2, reloc="pic", codemodel="default", jit=True
        )
        # JITLink places the sections of an object side by side, however much memory the process holds; MCJIT scatters
        # them, and aborts where they are too far apart for the 32 bits in which they refer to each other.
        self._engine = llvm.create_lljit_compiler(use_jit_link=True)
        self._loaded: list[llvm.ResourceTracker] = []
        self._addresses: dict[str, int] = {}
        self._packs: dict[str, Path] | None = None
        self.compiled = 0
        self._load_runtime()

    def runtime(self, name: str) -> int:
        return self._addresses[f"rt_{name}"]

    def handlers(self, forms: Sequence[tuple[Form, bool]]) -> list[int]:
        """Addresses of the handlers of (form, keeps denormals), compiling what no pack holds."""
        symbols = [handler_symbol(*form) for form in forms]
        missing = {s: f for s, f in zip(symbols, forms, strict=True) if s not in self._addresses}
        if missing:
            self._from_packs(missing)
            left = {s: f for s, f in missing.items() if s not in self._addresses}
            if left:
                self._compile(left)
        return [self._addresses[symbol] for symbol in symbols]

    def _load_runtime(self) -> None:
        names = ["rt_run_group", *(f"rt_{name}" for name in HELPER_NAMES)]
        path = cache_folder() / f"{_RUNTIME}.pack"
        pack = _read_pack(path)
        if pack is None or pack[0] != names:
            pack = names, self._emit(_runtime_functions())
            _write_pack(path, *pack)
            prune_versions(path.parent)
        with contextlib.suppress(OSError):
            os.utime(path.parent)
        self._load(*pack)

    def _from_packs(self, missing: dict[str, tuple[Form, bool]]) -> None:
        """Load the packs that hold missing symbols."""
        self._scan()
        assert self._packs is not None
        for path in {self._packs[symbol] for symbol in missing if symbol in self._packs}:
            pack = _read_pack(path)
            if pack is not None:
                self._load(*pack)

    def _scan(self) -> None:
        """Read the index of every pack; another process may have added some."""
        self._packs = {}
        paths: list[Path] = []
        with contextlib.suppress(OSError):
            paths = sorted(cache_folder().glob("h_*.pack"))
        for path in paths:
            with contextlib.suppress(OSError):
                for symbol in _read_index(path):
                    self._packs.setdefault(symbol, path)

    def _compile(self, forms: dict[str, tuple[Form, bool]]) -> None:
        functions = [write_handler(symbol, form, keeps) for symbol, (form, keeps) in forms.items()]
        code = self._emit(functions)
        self.compiled += len(functions)
        names = sorted(forms)
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:24]
        _write_pack(cache_folder() / f"h_{digest}.pack", names, code)
        self._load(names, code)

    def _emit(self, functions: Sequence[Function]) -> bytes:
        module = llvm.parse_assembly(module_text(functions, *_cpu()))
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        builder = llvm.create_pass_builder(self._machine, options)
        builder.getModulePassManager().run(module, builder)
        return bytes(self._machine.emit_object(module))

    def _load(self, names: Sequence[str], code: bytes) -> None:
        new = [name for name in names if name not in self._addresses]
        if not new:
            return
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in new:
            library.export_symbol(name)
        loaded = library.link(self._engine, f"pack{len(self._loaded)}")
        self._loaded.append(loaded)
        self._addresses.update({name: loaded[name] for name in new})


@lru_cache(maxsize=1)
def code_cache() -> CodeCache:
    """The one of this process."""
    return CodeCache()


def _runtime_functions() -> list[Function]:
    return [
        *core_functions(),
        *memory_functions(),
        *buffer_functions(),
        *store_functions(),
        *schedule_functions(),
    ]


def prune_versions(current: Path) -> None:
    """Remove the folders beside the current one except those used last.

    A folder is renamed before its files go, so nobody sees half of it; whoever still runs that version finds no pack
    and compiles anew.
    """
    with contextlib.suppress(OSError):
        others = [(path.stat().st_mtime_ns, path) for path in current.parent.iterdir() if path != current]
        versions = sorted(entry for entry in others if _is_version(entry[1]))
        for _, path in versions[: max(0, len(versions) - KEPT_VERSIONS)]:
            path.rename(path.with_name(f"{_DYING}{path.name}-{os.getpid()}"))
        # Also what a process that was killed here has left.
        for path in current.parent.glob(f"{_DYING}*"):
            shutil.rmtree(path, ignore_errors=True)


def _is_version(path: Path) -> bool:
    return path.is_dir() and len(path.name) == len(_key()) and not set(path.name) - set("0123456789abcdef")


def _write_pack(path: Path, names: Sequence[str], code: bytes) -> None:
    """magic, sha256 of the rest, u32 length of the names, names, object file. A folder that cannot be written is no
    error."""
    listing = "\n".join(names).encode()
    body = len(listing).to_bytes(4, "little") + listing + code
    with contextlib.suppress(OSError, RequestError, DeliveryError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as file:
            file.write(_MAGIC + hashlib.sha256(body).digest() + body)


def _read_pack(path: Path) -> tuple[list[str], bytes] | None:
    """Names and object of a pack, None if there is none or it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 32
    body = data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    length = int.from_bytes(body[:4], "little")
    return body[4 : 4 + length].decode().split("\n"), body[4 + length :]


def _read_index(path: Path) -> list[str]:
    with path.open("rb") as file:
        head = file.read(len(_MAGIC) + 32 + 4)
        return file.read(int.from_bytes(head[-4:], "little")).decode(errors="replace").split("\n")
