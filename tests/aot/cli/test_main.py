"""The command line as a whole: help, exit codes, error lines, and that it starts fast."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from aot.cli.errors import guarded
from aot.cli.main import COMMANDS, group, run
from aot.workers.interrupt import BuildInterruptedError
from cache_schema.errors import CacheError, DeliveryError, ProblemError, UnknownValueError


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The overview lists all commands with their sentence, and gives an example."""
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "Example:" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its help has a runnable example, and each option has a help text and is not longer than a line or two."""
    assert run([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example" in text
    assert f"rocke-aot {name}" in text
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.name == name
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert options
    assert [option.name for option in options if not option.help] == []


def test_help_loads_no_compiler_and_no_numpy() -> None:
    """`rocke-aot --help` is answered by click alone."""
    script = (
        "import sys; from aot.cli.main import run; run(['--help']); "
        "heavy = {'numpy', 'llvmlite', 'yaml', 'zstandard', 'tqdm'}; "
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UnknownValueError("architecture", "gfx1", ["gfx942"]), 2, "unknown architecture 'gfx1'; known: gfx942"),
        (ProblemError("n", "is negative"), 2, "problem field 'n': is negative"),
        (DeliveryError("two\n  lines."), 1, "two lines"),
        (CacheError("x.rocke: damaged header"), 1, "x.rocke: damaged header"),
        (click.UsageError("No such option: --x"), 2, "No such option: --x"),
        (
            BuildInterruptedError(signal.SIGTERM),
            143,
            "stopped by SIGTERM; what was built is kept, run the same command",
        ),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_errors_are_one_line_and_a_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kind of error has its exit code and exactly one line on stderr."""

    def fail() -> None:
        raise error

    assert guarded(fail) == code
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"rocke-aot: error: {line}")
    assert stderr.count("\n") == 1


def test_a_bug_keeps_its_traceback() -> None:
    """What is nobody's fault but ours is not dressed up as a clear error."""
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["count", "--arch", "gfx1"], "unknown architecture 'gfx1'; known: "),
        (["count", "--arch", "gfx950", "--dtype", "fp8"], "unknown dtype 'fp8'; known: "),
        (["count", "--arch", "gfx950", "--direction", "up"], "unknown direction 'up'; known: "),
        (["count", "--arch", "gfx950", "--family", "x"], "unknown family 'x'; known: "),
        (["count", "--arch", "gfx950", "--axes", "/nowhere.yaml"], "axes file /nowhere.yaml: cannot be read"),
        (["count"], "Missing option '--arch'; see `rocke-aot count --help`"),
        (["nonsense"], "No such command 'nonsense'; see `rocke-aot --help`"),
        (
            ["compile-all", "--arch", "gfx950", "--shard", "9/8", "--out", "x"],
            "Invalid value for '--shard': '9/8' is not",
        ),
        (["compile-all", "--arch", "gfx950", "--limit", "0", "--out", "x"], "Invalid value for '--limit': 0 is not"),
        (["compile-all", "--arch", "gfx950", "--shard", "²/8", "--out", "x"], "Invalid value for '--shard': '²/8' is"),
        (["verify", "x", "--shard", "²/8"], "Invalid value for '--shard': '²/8' is not"),
        (["compile-all", "--arch", "gfx950", "--out", ""], "Invalid value for '--out': the path is empty"),
        (["plan", "x", "--extract", ""], "Invalid value for '--extract': the path is empty"),
        (["compile-all", "--arch", "gfx950", "--time-limit", "nan", "--out", "x"], "Invalid value for '--time-limit'"),
        (["inspect", "x", "--limit", "-1"], "Invalid value for '--limit': -1 is not"),
        (["verify", "x", "--seed", "-1"], "Invalid value for '--seed': -1 is not"),
        (["compile-all", "--arch", "gfx1", "--out", "{tmp}/o"], "unknown architecture 'gfx1'; known: "),
        (["compile-all", "--arch", "gfx950", "--out", "/proc/x"], "cannot write to /proc/x: "),
        (
            ["compile-all", "--arch", "gfx950", "--toolchain", "llvm-3", "--out", "{tmp}/o"],
            "toolchain 'llvm-3' is not on",
        ),
        (
            ["compile-all", "--arch", "gfx950", "--family", "tilde", "--direction", "fwd", "--out", "{tmp}/o"],
            "no family of this name serves this direction",
        ),
    ],
)
def test_bad_requests(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown names, bad numbers, unreadable and unwritable paths: exit code 2 and one line."""
    assert run([argument.format(tmp=tmp_path) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"rocke-aot: error: {message}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["count", "--arch", "gfx1"], 2),
        (["count"], 2),
        (["inspect", "/nowhere"], 2),
        (["inspect", __file__], 1),
        (["plan", __file__], 1),
        (["verify", "/nowhere"], 2),
        (["compile-all", "--arch", "gfx950", "--shard", "9/8", "--out", "x"], 2),
        (["doctor", "--toolchain", "llvm-3"], 1),
        (["describe", "--arch", "gfx950", "--dtype", "fp8"], 2),
    ],
)
def test_failures_are_json_too(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json, stdout is one JSON object whatever happens; an error in it says what the line on stderr says."""
    assert run([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    if captured.err:
        assert answer["exit_code"] == code
        assert captured.err.startswith(f"rocke-aot: error: {answer['error']}")
    else:
        assert arguments[0] == "doctor"


def test_a_closed_pipe_is_quiet() -> None:
    """`rocke-aot ... | head -1` leaves no traceback."""
    command = f"{sys.executable} -m aot.cli.main describe --arch gfx950 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)  # noqa: S602
    assert done.stdout == "gfx950 fp16 fwd\n"
    assert done.stderr == ""


def test_no_argument_at_all_asks_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`rocke-aot` alone prints the overview."""
    assert run([]) == 0
    captured = capsys.readouterr()
    assert "Commands:" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("command", ["count --arch gfx950 --dtype bf16 --direction fwd", "--help"])
def test_output_that_cannot_be_written_is_an_error(command: str) -> None:
    """A full disk behind stdout: exit code 1 and one line."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "aot.cli.main", *command.split()], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"rocke-aot: error: cannot write the output: No space left on device\n"


@pytest.mark.parametrize(("closing", "code"), [(">&-", 0), ("2>&-", 2), ("2>/dev/full", 2)])
def test_closed_streams_change_no_exit_code(closing: str, code: int) -> None:
    """Without stdout or stderr nothing is said, nothing lands on the other stream, and the code is the same."""
    arguments = "count --arch gfx1" if code else "--help"
    command = f"exec {sys.executable} -m aot.cli.main {arguments} {closing}"
    done = subprocess.run(command, shell=True, capture_output=True, check=False)  # noqa: S602
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_an_interrupt_leaves_one_line() -> None:
    """Ctrl-C while a command is still loading its libraries: one line, exit code 130."""
    script = (
        "import signal, aot.cli.main as m; "
        "m.LazyGroup.get_command = lambda *_: signal.raise_signal(signal.SIGINT); raise SystemExit(m.run(['count']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "rocke-aot: error: stopped\n")


def test_count_gives_the_published_totals(capsys: pytest.CaptureFixture[str]) -> None:
    """The forward grid of gfx950: admitted as published, and rejections that add up."""
    assert run(["count", "--arch", "gfx950", "--dtype", "bf16", "--direction", "fwd", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["candidates"], row["admitted"]) == (149408, 86800)
    assert (row["arch"], row["dtype"], row["direction"]) == ("gfx950", "bf16", "fwd")
    assert row["buildable"] + sum(row["rejected"].values()) == row["candidates"]
    assert run(["count", "--arch", "gfx950", "--dtype", "bf16", "--direction", "fwd"]) == 0
    text = capsys.readouterr().out
    assert "149,408" in text
    assert "86,800" in text


def test_describe_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The values of each axis share out all candidates of a direction."""
    assert run(["describe", "--arch", "gfx942", "--dtype", "fp16", "--direction", "fwd", "--json"]) == 0
    totals: dict[str, int] = {}
    for row in json.loads(capsys.readouterr().out):
        totals[row["axis"]] = totals.get(row["axis"], 0) + row["candidates"]
    assert len(totals) > 5
    assert set(totals.values()) == {192192}


def test_doctor_tells_what_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    """The toolchain, its LLVM and flavor, why it was chosen, and the machine; as text and as JSON."""
    assert run(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["toolchain"]["ir_flavor"] in ("llvm20", "llvm22")
    assert report["toolchain"]["chosen_because"]
    assert report["machine"]["workers"] >= 1
    assert run(["doctor"]) == 0
    assert report["toolchain"]["llvm"] in capsys.readouterr().out


def test_doctor_names_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any LLVM the exit code is 1 and the text has the command that gets one."""
    monkeypatch.setattr("aot.toolchain.discover.candidates", lambda: iter(()))
    monkeypatch.setattr("aot.toolchain.doctor.candidates", lambda: iter(()))
    monkeypatch.delenv("ROCKE_AOT_LLVM", raising=False)
    assert run(["doctor"]) == 1
    assert "get it with: apt-get install clang-22" in capsys.readouterr().out
