"""Stopping by a signal: a command ends where it is; a build only sets a flag, and looks at it where it can stop."""

from __future__ import annotations

import signal
from types import FrameType

from cache_schema.errors import DeliveryError

#: A service manager's way to end a process, and a terminal's that is closed.
_ASKING = (signal.SIGTERM, signal.SIGHUP)


class BuildInterruptedError(DeliveryError):
    """The build was told to stop; what was built is kept."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        name = signal.Signals(signal_number).name
        super().__init__(f"stopped by {name}; what was built is kept, run the same command again to go on")


class Stopped(KeyboardInterrupt):
    """A command was told to stop by another signal than Ctrl-C's."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")


def stop_on_signals() -> None:
    """From now on SIGTERM and SIGHUP raise `Stopped` in the main thread, and the second one kills."""
    for number in _ASKING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _raise_stopped)


def _raise_stopped(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    for other in _ASKING:
        if signal.getsignal(other) is not signal.SIG_IGN:
            signal.signal(other, signal.SIG_DFL)
    raise Stopped(number)


class StopFlag:
    """Set by anyone, read by the build. As a context manager it is set by SIGINT, SIGTERM and SIGHUP."""

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
        for number in (signal.SIGINT, *_ASKING):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    # A second signal kills.
    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._signal_number:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._signal_number = number
