"""Exit codes and error lines, in one place.

    0    all that was asked for is there
    1    something that was asked for was not delivered: a kernel failed or timed out, a file is damaged, the disk is
         full, no toolchain compiles for the target (`DeliveryError`), the output cannot be written
    2    the request itself is wrong, nothing was done, and the same request always fails: unknown name, bad option,
         unusable folder or file (`RequestError`, click's usage errors)
    128+n  stopped by signal n; what was built is kept

An error is one line on stderr: `rocke-aot: error: <what, where, what to do>`. With --json, stdout has it as an object.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
from collections.abc import Callable

import click

from aot.workers.child import lacks_memory
from aot.workers.interrupt import BuildInterruptedError, Stopped
from cache_schema.errors import RequestError, RockeAotError

OK = 0
NOT_DELIVERED = 1
BAD_REQUEST = 2
_SIGNALLED = 128
_NO_MEMORY = "out of memory; give it more, or ask for less with --jobs and --limit"
# What only a write to an open file can meet.
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def guarded(run: Callable[[], object], as_json: bool = False) -> int:
    """Run a command; its exit code, after one line on stderr if there is something to say, and the same as JSON.

    A command ends with another code than 0 by returning it.
    """
    fail = _fail_as_json if as_json else _fail
    try:
        result = run()
        if sys.stdout is not None:  # None: started with a closed stdout
            sys.stdout.flush()
        return result if isinstance(result, int) else OK
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return fail(BAD_REQUEST, error.format_message(), _usage(error))
    except BuildInterruptedError as error:
        return fail(_SIGNALLED + error.signal_number, str(error))
    except RockeAotError as error:
        return fail(BAD_REQUEST if isinstance(error, RequestError) else NOT_DELIVERED, str(error))
    except Stopped as stop:
        return fail(_SIGNALLED + stop.signal_number, str(stop))
    except (KeyboardInterrupt, click.Abort):
        return fail(_SIGNALLED + signal.SIGINT, "stopped")
    except BrokenPipeError:
        # The reader of our output has enough (head, less). Nothing more can be written, not even at exit.
        sys.stdout = None
        return _SIGNALLED + signal.SIGPIPE
    except MemoryError:
        return fail(NOT_DELIVERED, _NO_MEMORY)
    except ImportError as error:
        if lacks_memory(str(error)):
            return fail(NOT_DELIVERED, _NO_MEMORY)
        if os.strerror(errno.EMFILE) in str(error):
            return fail(NOT_DELIVERED, _told(OSError(errno.EMFILE, os.strerror(errno.EMFILE))))
        raise
    except OSError as error:
        # Files that a command names have errors of their own; what is left is our output, and the machine.
        if error.filename is None and error.errno in _OF_WRITING:
            sys.stdout = None
            return _fail(NOT_DELIVERED, f"cannot write the output: {error.strerror or error}")
        return fail(NOT_DELIVERED, _told(error))


def _told(error: OSError) -> str:
    advice = "; raise the limit, see `ulimit -n`" if error.errno == errno.EMFILE else ""
    return f"{error.filename or 'the machine refuses'}: {error.strerror or error}{advice}"


def _usage(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"; see `{context.command_path} --help`" if context else ""


def _fail(code: int, message: str, advice: str = "") -> int:
    line = " ".join(message.split()).rstrip(".")
    if sys.stderr is not None:  # print would take None for stdout
        with contextlib.suppress(OSError):
            print(f"rocke-aot: error: {line}{advice}", file=sys.stderr, flush=True)
    return code


def _fail_as_json(code: int, message: str, advice: str = "") -> int:
    with contextlib.suppress(OSError):
        click.echo(json.dumps({"error": " ".join(message.split()).rstrip("."), "exit_code": code}))
    return _fail(code, message, advice)
