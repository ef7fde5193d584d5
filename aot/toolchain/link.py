"""Object to code object: our linker where it knows the object, ld.lld for the rest."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from aot.toolchain.discover import INSTALL_LINKER, OWN_LINKER
from aot.toolchain.errors import LinkError, ToolchainMissingError, UnsupportedObjectError
from aot.toolchain.linker import link_object
from aot.toolchain.toolchain import Toolchain
from aot.workers.child import run_child

# Debug information is not shipped, symbols are: ROCr and HIP refuse a file without .symtab and .strtab. No build id,
# which would only repeat the cache's own digest.
LLD_FLAGS = ("-shared", "--no-undefined", "--strip-debug")
# The LLD majors whose layout our linker is tested to reproduce; any other links everything itself.
_SAME_LAYOUT = range(19, 23)
# One object of some kilobytes is linked in milliseconds.
_SECONDS = 60.0


def link(toolchain: Toolchain, obj: bytes) -> bytes:
    """The loadable code object for one relocatable object, the same bytes whichever linker makes it.

    Raises LinkError if ld.lld refuses the object, ToolchainMissingError if only ld.lld could link it and there is none.
    """
    if _reproduces(toolchain.linker_version):
        try:
            return link_object(obj, toolchain.linker_version)
        except UnsupportedObjectError as error:
            if not toolchain.linker:
                raise ToolchainMissingError(f"this object needs ld.lld ({error})", INSTALL_LINKER) from error
    return link_with_lld(toolchain, obj)


def link_with_lld(toolchain: Toolchain, obj: bytes) -> bytes:
    """The same by a linker process."""
    if not toolchain.linker:
        raise ToolchainMissingError("no ld.lld on this machine", INSTALL_LINKER)
    with tempfile.TemporaryDirectory(prefix="rocke-link-") as folder:
        source, target = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        source.write_bytes(obj)
        command = [*toolchain.linker, *LLD_FLAGS, str(source), "-o", str(target)]
        result = run_child(command, seconds=_SECONDS)
        if result.code != 0:
            raise LinkError(result.message.replace(folder + "/", "") or f"{toolchain.linker[0]} failed")
        return target.read_bytes()


def _reproduces(linker_version: str) -> bool:
    if linker_version == OWN_LINKER:
        return True
    version = re.search(r"LLD (\d+)\.", linker_version)
    return version is not None and int(version[1]) in _SAME_LAYOUT
