"""Errors a person can act on: what is wrong, where, and what to do.

The command line turns a `RequestError` into exit code 2 and a `DeliveryError` into exit code 1, one line each.
"""

from __future__ import annotations

from collections.abc import Iterable


class RockeAotError(Exception):
    """Base of every error this project raises on purpose."""


class RequestError(RockeAotError):
    """The request itself is wrong: nothing was done, and the same request will always fail."""


class DeliveryError(RockeAotError):
    """Something that was asked for could not be delivered."""


class UnknownValueError(RequestError):
    """A name that is not one of a closed set."""

    def __init__(self, what: str, value: object, allowed: Iterable[object]) -> None:
        self.what, self.value, self.allowed = what, value, tuple(allowed)
        super().__init__(f"unknown {what} {value!r}; known: {', '.join(map(str, self.allowed))}")


class ProblemError(RequestError):
    """A convolution problem that is malformed or that no kernel of this project will ever take."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(f"problem field {field!r}: {message}")


class CacheError(DeliveryError):
    """A cache file that is foreign, damaged or of an unknown version. One that cannot be read is a `RequestError`."""
