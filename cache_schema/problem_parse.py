"""Every way to write a problem down: named flags, MIOpenDriver lines, problem files. One door to all."""

from __future__ import annotations

from cache_schema.problem_fields import from_flags, from_mapping
from cache_schema.problem_file import ProblemCase, ProblemFileError, load_problem_file
from cache_schema.problem_miopen import from_miopen_line

__all__ = ["ProblemCase", "ProblemFileError", "from_flags", "from_mapping", "from_miopen_line", "load_problem_file"]
