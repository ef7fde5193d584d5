"""AMD's code object manager, as HIP uses it, over ctypes: metadata, symbols and target of a code object."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p, create_string_buffer
from typing import Any, NamedTuple

import pytest

from tests.needs import lacking

#: Debian's, and that of newer ROCm.
LIBRARIES = ("libamd_comgr.so.2", "libamd_comgr.so.3")
#: Whether scripts/setup --test can install it here: as root, where apt is.
INSTALLABLE = os.geteuid() == 0 and shutil.which("apt-get") is not None

_EXECUTABLE = 8
_STRING, _MAP, _LIST = 1, 2, 3
_NAME_LENGTH, _NAME, _TYPE, _SIZE, _UNDEFINED, _VALUE = range(6)


class _Handle(ctypes.Structure):
    """What comgr calls amd_comgr_data_t, amd_comgr_metadata_node_t and amd_comgr_symbol_t: one 64-bit handle."""

    _fields_ = [("handle", c_uint64)]


_OnSymbol = ctypes.CFUNCTYPE(c_int, _Handle, c_void_p)
_OnEntry = ctypes.CFUNCTYPE(c_int, _Handle, _Handle, c_void_p)
_SIGNATURES = {
    "create_data": (c_int, POINTER(_Handle)),
    "set_data": (_Handle, c_size_t, c_char_p),
    "release_data": (_Handle,),
    "get_data_isa_name": (_Handle, POINTER(c_size_t), c_char_p),
    "get_isa_count": (POINTER(c_size_t),),
    "get_isa_name": (c_size_t, POINTER(c_char_p)),
    "get_data_metadata": (_Handle, POINTER(_Handle)),
    "destroy_metadata": (_Handle,),
    "get_metadata_kind": (_Handle, POINTER(c_int)),
    "get_metadata_string": (_Handle, POINTER(c_size_t), c_char_p),
    "get_metadata_list_size": (_Handle, POINTER(c_size_t)),
    "index_list_metadata": (_Handle, c_size_t, POINTER(_Handle)),
    "iterate_map_metadata": (_Handle, _OnEntry, c_void_p),
    "iterate_symbols": (_Handle, _OnSymbol, c_void_p),
    "symbol_get_info": (_Handle, c_int, c_void_p),
}


class ComgrError(Exception):
    """A call that comgr refused."""


class Symbol(NamedTuple):
    """A symbol as comgr reports it; `type` is ELF's."""

    name: str
    type: int
    size: int
    undefined: bool
    value: int


@functools.cache
def _library() -> ctypes.CDLL:
    for name in LIBRARIES:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    if not INSTALLABLE:
        lacking("comgr, which scripts/setup --test installs for root on Debian")
    pytest.fail("no comgr on this machine; scripts/setup --test installs Debian's libamd-comgr2")


def _call(name: str, *arguments: Any) -> None:
    function = getattr(_library(), f"amd_comgr_{name}")
    function.argtypes = _SIGNATURES[name]
    status = function(*arguments)
    if status != 0:
        raise ComgrError(f"amd_comgr_{name}: status {status}")


def known_targets() -> set[str]:
    """The target ids that this comgr knows."""
    count, name, names = c_size_t(), c_char_p(), set()
    _call("get_isa_count", byref(count))
    for index in range(count.value):
        _call("get_isa_name", index, byref(name))
        names.add((name.value or b"").decode())
    return names


class Comgr:
    """One code object in comgr; a context manager. Raises ComgrError for what comgr refuses."""

    def __init__(self, code: bytes) -> None:
        self._data = _Handle()
        _call("create_data", _EXECUTABLE, byref(self._data))
        _call("set_data", self._data, len(code), code)

    def __enter__(self) -> Comgr:
        return self

    def __exit__(self, *_: object) -> None:
        _call("release_data", self._data)

    def target(self) -> str:
        """The target id, such as amdgcn-amd-amdhsa--gfx90a."""
        size = c_size_t()
        _call("get_data_isa_name", self._data, byref(size), None)
        text = create_string_buffer(size.value)
        _call("get_data_isa_name", self._data, byref(size), text)
        return text.value.decode()

    def metadata(self) -> Any:
        """Maps, lists and strings; comgr turns every number into a string."""
        root = _Handle()
        _call("get_data_metadata", self._data, byref(root))
        try:
            return _plain(root)
        finally:
            _call("destroy_metadata", root)

    def symbols(self) -> list[Symbol]:
        found: list[Symbol] = []

        def add(symbol: _Handle, _: object) -> int:
            length, kind, undefined = c_size_t(), c_int(), ctypes.c_bool()
            size, value = c_uint64(), c_uint64()
            _call("symbol_get_info", symbol, _NAME_LENGTH, byref(length))
            name = create_string_buffer(length.value + 1)
            _call("symbol_get_info", symbol, _NAME, name)
            for attribute, place in ((_TYPE, kind), (_SIZE, size), (_UNDEFINED, undefined), (_VALUE, value)):
                _call("symbol_get_info", symbol, attribute, byref(place))
            found.append(Symbol(name.value.decode(), kind.value, size.value, undefined.value, value.value))
            return 0

        _call("iterate_symbols", self._data, _OnSymbol(add), None)
        return found


def _plain(node: _Handle) -> Any:
    kind, size = c_int(), c_size_t()
    _call("get_metadata_kind", node, byref(kind))
    if kind.value == _STRING:
        _call("get_metadata_string", node, byref(size), None)
        text = create_string_buffer(size.value)
        _call("get_metadata_string", node, byref(size), text)
        return text.value.decode()
    if kind.value == _LIST:
        _call("get_metadata_list_size", node, byref(size))
        return [_element(node, index) for index in range(size.value)]
    if kind.value == _MAP:
        entries: dict[str, Any] = {}

        def add(key: _Handle, value: _Handle, _: object) -> int:
            entries[_plain(key)] = _plain(value)
            return 0

        _call("iterate_map_metadata", node, _OnEntry(add), None)
        return entries
    raise ComgrError(f"metadata of kind {kind.value}")


def _element(node: _Handle, index: int) -> Any:
    element = _Handle()
    _call("index_list_metadata", node, index, byref(element))
    try:
        return _plain(element)
    finally:
        _call("destroy_metadata", element)
