"""Stopping a build cleanly: a signal only sets a flag, and the build looks at it where it can stop."""

from __future__ import annotations

import signal
from types import FrameType

from cache_schema.errors import DeliveryError


class BuildInterruptedError(DeliveryError):
    """The build was told to stop; what was built is kept."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        name = signal.Signals(signal_number).name
        super().__init__(f"stopped by {name}; what was built is kept, run the same command again to go on")


class StopFlag:
    """Set by anyone, read by the build. As a context manager it is set by SIGINT and SIGTERM; a second signal kills."""

    def __init__(self) -> None:
        self._signal_number = 0
        self._previous: dict[int, object] = {}

    def set(self, signal_number: int = signal.SIGINT) -> None:
        self._signal_number = signal_number

    def check(self) -> None:
        """Raises BuildInterruptedError when the flag is set."""
        if self._signal_number:
            raise BuildInterruptedError(self._signal_number)

    def __enter__(self) -> StopFlag:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._signal_number:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._signal_number = number
