"""The ways to name problems on a command line, the same for every command.

--problem TEXT     a MIOpenDriver line, a file of problems, or "n=8 c=64 h=56 w=56 k=64 y=3 x=3 pad=1"
--case ID          one case of a file
--n 8 --c 64 ...   the fields themselves
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cache_schema.errors import ProblemError, RequestError
from cache_schema.problem import DIRECTIONS, ConvProblem
from cache_schema.problem_fields import FIELDS
from cache_schema.problem_parse import ProblemCase, from_mapping, from_miopen_line, load_problem_file

#: Flag -> help. Pairs take one number or "height,width".
_FLAGS = {field.name: field.help for field in FIELDS if field.help}
_FILE_SUFFIXES = (".yaml", ".yml", ".json", ".txt")


@dataclass(frozen=True)
class ProblemRequest:
    """What was asked for, not read yet."""

    text: str | None
    case: str | None
    flags: dict[str, str]

    def __bool__(self) -> bool:
        """Whether a problem was named at all."""
        return self.text is not None or bool(self.flags)

    def cases(self, dtype: str, directions: Sequence[str]) -> list[ProblemCase]:
        """All problems; `dtype` and `directions` are what the cache at hand has and fill in what was left out.

        A line that stands for several directions gives those that the cache has, or all if it has none of them.
        """
        if self.text is not None and self.flags:
            raise RequestError(f"give --problem or the fields (--{', --'.join(self.flags)}), not both")
        if self.case is not None and not self._is_file():
            raise RequestError("--case picks from a file of problems; give one with --problem FILE")
        if self._is_file():
            return self._from_file()
        if self.text is not None and "=" in self.text and " -" not in f" {self.text}":
            return [_case(_assignments(self.text), dtype, directions)]
        if self.text is not None:
            problems = from_miopen_line(self.text)
            wanted = [problem for problem in problems if problem.direction in directions] or problems
            return [ProblemCase(problem.direction, problem) for problem in wanted]
        return [_case(self.flags, dtype, directions)]

    def one(self, dtype: str, directions: Sequence[str]) -> ConvProblem:
        """The one problem asked for; several, none, or a malformed one are errors."""
        if not self:
            raise RequestError(
                'name a problem: --problem "convbfp16 -n 8 -c 64 ...", --problem FILE, or --n 8 --c 64 ...'
            )
        cases = self.cases(dtype, directions)
        if not cases:
            raise RequestError(f"{self.text} has no problem in it")
        if len(cases) != 1:
            names = ", ".join(case.id for case in cases[:5])
            raise RequestError(
                f"{len(cases)} problems ({names}{', ...' if len(cases) > 5 else ''}); choose one of them"
            )
        if cases[0].problem is None:
            raise cases[0].error or ProblemError("problem", "malformed")
        return cases[0].problem

    def _is_file(self) -> bool:
        if self.text is None or self.text.endswith(_FILE_SUFFIXES):
            return self.text is not None
        try:
            return Path(self.text).is_file()
        except OSError:  # longer than any name of a file
            return False

    def _from_file(self) -> list[ProblemCase]:
        cases = load_problem_file(str(self.text))
        if self.case is None:
            return cases
        found = [case for case in cases if case.id == self.case]
        if not found:
            raise RequestError(
                f"{self.text} has no case {self.case!r}; it has {len(cases)}, the first is {cases[0].id!r}"
            )
        return found


def _assignments(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for word in text.replace(";", " ").split():
        name, equals, value = word.partition("=")
        if not equals:
            raise ProblemError(word, "expected NAME=VALUE")
        if fields.setdefault(name, value) != value:
            raise ProblemError(name, f"given twice, as {fields[name]} and {value}")
    return fields


def _case(fields: dict[str, str], dtype: str, directions: Sequence[str]) -> ProblemCase:
    """Fields to a problem; a direction that is left out is the first unless the cache has only another one."""
    direction = directions[0] if len(directions) == 1 else DIRECTIONS[0]
    return ProblemCase("problem", from_mapping({"direction": direction, "dtype": dtype, **fields}))


def problem_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the module's head; the command receives a `ProblemRequest` as `problem_request`."""

    @functools.wraps(command)
    def with_request(*args: Any, problem: str | None, problem_case: str | None, **options: Any) -> Any:
        fields = {name: options.pop(f"problem_field_{name}") for name in _FLAGS}
        given = {name: value for name, value in fields.items() if value is not None}
        return command(*args, problem_request=ProblemRequest(problem, problem_case, given), **options)

    decorated: Callable[..., Any] = with_request
    for name, help_text in reversed(_FLAGS.items()):
        decorated = click.option(f"--{name}", f"problem_field_{name}", metavar=name.upper(), help=help_text)(decorated)
    decorated = click.option("--case", "problem_case", metavar="ID", help="One case of a problem file.")(decorated)
    help_text = 'A MIOpenDriver line, a file of problems, or "n=8 c=64 h=56 w=56 k=64 y=3 x=3 pad=1".'
    return click.option("--problem", metavar="TEXT", help=help_text)(decorated)
