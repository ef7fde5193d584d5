"""Evidence files: every change is seen, any number of verifiers write at once, hostile ones end in a typed error."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aot.verification.coverage import check_coverage
from aot.verification.evidence import Evidence, in_order
from aot.verification.evidence_format import Conditions, EvidenceError, Head
from aot.verification.evidence_reading import find_verdict, read_evidence, summarise_evidence
from cache_schema.cache_reader import Cache
from cache_schema.errors import CacheError, RequestError
from tests.cache_schema.hostile import HOW, VALUES, nodes, replace_node
from tests.cache_schema.test_cache_hostile import bounded

HEAD = Head("ab" * 32, "gfx950", "bf16")
CONDITIONS = Conditions("7", "llvm", 1, "edges/3")
ROOT = Path(__file__).parents[3]


def verdict(number: int, state: str = "right", identities: int = 1) -> dict[str, Any]:
    """A made-up verdict on one code object; some share cases."""
    case = {"name": f"case-{number % 3}", "problem": "n=1", "inputs": "ints", "elements": 4, "exact": 4, "bound": 0.5}
    record: dict[str, Any] = {
        "code": hashlib.sha256(str(number).encode()).hexdigest(),
        "digests": [hashlib.sha256(f"{number}.{i}".encode()).hexdigest()[:40] for i in range(identities)],
        "verdict": state,
        "message": "" if state == "right" else "off",
        "instructions": 10 * number,
        "use": 0.25,
        "cases": [{**case, "worst_error": 0.125}],
    }
    return record


def write(path: Path, numbers: range, conditions: Conditions = CONDITIONS) -> None:
    """One verifier from beginning to end."""
    evidence = Evidence.resume(path, HEAD, conditions)
    for number in numbers:
        evidence.add(verdict(number))
    evidence.settle()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small file with verdicts of every kind under two conditions."""
    path = tmp_path_factory.mktemp("good") / "e.jsonl"
    write(path, range(3))
    other = Evidence.resume(path, HEAD, Conditions("7", "llvm", 2, "edges/3"))
    other.add({**verdict(7, "wrong"), "failing": {"problem": "n=1", "inputs": "ints", "seed": 2, "degree": -1}})
    other.add(verdict(8, "error"))
    other.settle()
    return path.read_bytes()


def test_what_is_written_comes_back(good: bytes, tmp_path: Path) -> None:
    """Verdicts are read as they were added, infinities included."""
    path = tmp_path / "e.jsonl"
    path.write_bytes(good)
    contents = read_evidence(path)
    assert contents.head == HEAD
    found = {v["code"]: v for v in contents.verdicts}
    for number, state in ((0, "right"), (2, "right"), (7, "wrong"), (8, "error")):
        wanted = verdict(number, state)
        assert {name: found[wanted["code"]][name] for name in wanted} == wanted
    infinite = verdict(9)
    infinite["cases"][0] |= {"bound": float("inf"), "worst_error": float("inf")}
    Evidence.resume(path, HEAD, CONDITIONS).add(infinite)
    assert read_evidence(path).verdicts[-1]["cases"][0]["worst_error"] == float("inf")
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_every_flip_is_seen(good: bytes, tmp_path: Path) -> None:
    """Any byte changed anywhere is noticed; without the end of the last line, that line counts as cut off."""
    path = tmp_path / "e.jsonl"
    rng = random.Random(1)
    for position in range(len(good) - 1):
        path.write_bytes(good[:position] + bytes([good[position] ^ rng.randint(1, 255)]) + good[position + 1 :])
        with pytest.raises(EvidenceError, match=r"e\.jsonl"):
            read_evidence(path)
    path.write_bytes(good[:-1] + b" ")
    assert len(read_evidence(path).verdicts) == 4


def test_lines_are_chained(good: bytes, tmp_path: Path) -> None:
    """A line that is dropped, doubled, moved, or taken from the evidence of another cache does not fit."""
    lines = good.splitlines(keepends=True)
    other = tmp_path / "other.jsonl"
    foreign = Evidence.resume(other, Head("cd" * 32, "gfx950", "bf16"), CONDITIONS)
    foreign.add(verdict(0))
    taken = other.read_bytes().splitlines(keepends=True)
    changes = [lines[:at] + lines[at + 1 :] for at in range(1, len(lines) - 1)]
    changes += [[*lines[:at], lines[at - 1], *lines[at:]] for at in range(1, len(lines))]
    changes += [[*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]] for at in range(1, len(lines) - 1)]
    changes += [[*lines[:1], *taken[1:]], [*taken[:1], *lines[1:]], lines[1:]]
    path = tmp_path / "e.jsonl"
    for changed in changes:
        path.write_bytes(b"".join(changed))
        with pytest.raises(EvidenceError):
            read_evidence(path)


WRITER = """
import sys
from pathlib import Path
from tests.aot.verification.test_evidence import Conditions, write
first, end, seed = map(int, sys.argv[2:])
write(Path(sys.argv[1]), range(first, end), Conditions("7", "llvm", seed, "edges/3"))
"""


def test_many_verifiers_at_once(tmp_path: Path) -> None:
    """Four processes add verdicts and bring the file to its order: all are there, and the file is that of one alone."""
    path, alone = tmp_path / "e.jsonl", tmp_path / "alone.jsonl"
    parts = [(0, 40, 1), (40, 80, 1), (60, 100, 1), (0, 40, 2)]
    commands = [[sys.executable, "-c", WRITER, str(path), *map(str, part)] for part in parts]
    running = [subprocess.Popen(command, cwd=ROOT) for command in commands]
    assert [process.wait(60) for process in running] == [0] * 4
    write(alone, range(100))
    write(alone, range(40), Conditions("7", "llvm", 2, "edges/3"))
    assert path.read_bytes() == alone.read_bytes()
    assert len(read_evidence(path).verdicts) == 140
    assert sorted(tmp_path.iterdir()) == [alone, path]


def test_two_verifiers_in_turn(tmp_path: Path) -> None:
    """One that has read the file before the other replaced it goes on behind what is there now."""
    path = tmp_path / "e.jsonl"
    first, second = (Evidence.resume(path, HEAD, CONDITIONS) for _ in range(2))
    for number in range(6):
        (first, second)[number % 2].add(verdict(number))
        if number == 3:
            second.settle()
    first.settle()
    assert len(read_evidence(path).verdicts) == 6
    path.unlink()
    second.add(verdict(9))
    assert [v["code"] for v in read_evidence(path).verdicts] == [verdict(9)["code"]]
    Evidence.resume(path, Head("cd" * 32, "gfx950", "bf16"), CONDITIONS)
    with pytest.raises(EvidenceError, match="evidence of another cache"):
        second.add(verdict(10))


@pytest.mark.parametrize("others", [3, 40])
def test_another_file_under_the_same_number(others: int, tmp_path: Path) -> None:
    """A file system gives the number of a file that is gone to the next one: what is in it decides, not what it is."""
    path, other = tmp_path / "e.jsonl", tmp_path / "other.jsonl"
    first = Evidence.resume(path, HEAD, CONDITIONS)
    for number in range(5):
        first.add(verdict(number))
    write(other, range(50, 50 + others))
    path.write_bytes(other.read_bytes())  # in place, so that the number stays
    first.add(verdict(9))
    first.settle()
    assert len(read_evidence(path).verdicts) == others + 1


def test_what_a_killed_verifier_left(tmp_path: Path) -> None:
    """Half a line at the end is overwritten by the next verdict, and nothing before it is touched."""
    path = tmp_path / "e.jsonl"
    evidence = Evidence.resume(path, HEAD, CONDITIONS)
    evidence.add(verdict(0))
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"code":"' + b"x" * 3000)
    evidence.add(verdict(1))
    assert path.read_bytes().startswith(whole)
    assert len(read_evidence(path).verdicts) == 2


def test_right_verdicts_stand() -> None:
    """Of one code object the verdicts remain that no other one stands for, whatever the order they came in."""
    wide, narrow = verdict(0, identities=3), verdict(0)
    other = {**verdict(0), "digests": verdict(0, identities=3)["digests"][1:]}
    failed, late = verdict(0, "error", identities=3), verdict(0, "wrong")
    for given_, standing in (
        ([narrow, wide], [wide]),
        ([wide, narrow], [wide]),
        ([narrow, other], [narrow, other]),
        ([other, narrow], [narrow, other]),
        ([failed, wide], [wide]),
        ([wide, failed], [wide]),
        ([narrow, failed], [narrow, failed]),
        ([late, failed], [failed]),
        ([late, wide], [wide]),
    ):
        records = [{**record, "conditions": CONDITIONS} for record in given_]
        kept = sorted(map(str, in_order(records)))
        assert kept == sorted(str({**record, "conditions": CONDITIONS}) for record in standing)


def test_two_shards_at_once(small_cache: Path, tmp_path: Path) -> None:
    """Two runs of the command over two halves of one cache, at the same time: every verdict is there."""
    cache = Path(shutil.copy(small_cache, tmp_path / "own.rocke"))
    command = [sys.executable, "-m", "aot.cli.main", "verify", str(cache), "--jobs", "1", "--problems"]
    problems = tmp_path / "p.yaml"
    problems.write_text("- {id: a, direction: fwd, dtype: bf16, n: 1, c: 8, h: 4, w: 4, k: 8, y: 1, x: 1}\n")
    running = [subprocess.Popen([*command, str(problems), "--shard", f"{i}/2"], cwd=ROOT, stdout=-3) for i in (1, 2)]
    assert [process.wait(120) for process in running] == [0, 0]
    with Cache.open(cache) as opened:
        digests = {bytes(digest).hex() for digest in opened.digests}
    contents = read_evidence(tmp_path / "own.rocke.p.evidence.jsonl")
    assert {digest for v in contents.verdicts for digest in v["digests"]} == digests


def sealed(records: list[Any]) -> bytes:
    """Lines of any content, each with its seal."""
    seal, lines = "", []
    for record in records:
        body = json.dumps(record, separators=(",", ":")).encode()
        seal = hashlib.sha256(seal.encode() + body).hexdigest()[:16]
        lines.append(body[:-1] + (b"," if len(body) > 2 else b"") + b'"seal":"' + seal.encode() + b'"}\n')
    return b"".join(lines)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_field_may_lie(good: bytes, small_cache: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Whatever a field of sealed evidence says, whoever reads it gets an answer or a typed error."""
    records = copy.deepcopy([json.loads(line) for line in good.splitlines()])
    for record in records:
        del record["seal"]
    path = data.draw(st.sampled_from(list(nodes(records))))
    replace_node(records, path, data.draw(st.sampled_from(VALUES)), data.draw(st.sampled_from(HOW)))
    file = tmp_path / "e.jsonl"
    file.write_bytes(sealed(records))
    digest = verdict(0)["digests"][0]
    questions = (
        lambda: read_evidence(file),
        lambda: json.dumps(summarise_evidence(HEAD.cache, file)),
        lambda: json.dumps(find_verdict(file, HEAD.cache, digest)),
        lambda: check_coverage(small_cache, [file]),
        lambda: write(file, range(2)),
    )
    with bounded():
        for question in questions:
            try:
                question()
            except (EvidenceError, CacheError, RequestError):
                continue
