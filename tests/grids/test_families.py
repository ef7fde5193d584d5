"""Families as objects: what their records declare, what cannot be set, and the list of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cache_schema.errors import RequestError, UnknownValueError
from cache_schema.identity import (
    ABSENT,
    CAPABILITY,
    CONFIGURATION,
    KEYS,
    Identity,
    axis,
    constant,
    is_name,
    known_schema,
    known_schemas,
    schema_of,
    with_fields,
)
from cache_schema.label import decode, encode
from cache_schema.problem import DIRECTIONS
from cache_schema.table import FAMILY, IdentityTable, concat, union_fields
from grids.axes import AxesError, load_axes
from grids.catalogue import open_catalogue
from grids.families import (
    add,
    added,
    families,
    family_of,
    fix_up,
    known_family,
    remove,
    select,
    step_families,
    with_steps,
)
from grids.families.reduce import Reduce
from grids.family import Choice, Family, FamilyAxes
from grids.gemm.records import Dgrad, Gemm
from grids.reasons import deciding_fields, explain, explanations
from grids.rule import Rule
from grids.rules import evaluate, reason_codes
from grids.serving import ASKED, serving_reasons
from grids.targets import Target
from tests.grids.kernels import buildable, kernel, sample, spoilt

NAMES = tuple(families())
UNION = union_fields([family.schema for family in families().values()])


# --- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_fields_are_described(name: str) -> None:
    """Every field behind the keys has a tag, a sentence, a role, bounds, and a default within them.

    Tile, waves, atom and merge degree have no usual value: their default is 0, and no kernel.
    """
    schema = known_family(name).schema
    assert schema.names[: len(KEYS)] == KEYS
    assert not set(schema.names) & set(schema.constants)
    for entry in schema.fields[len(KEYS) :]:
        told = entry.axis
        assert told
        assert is_name(entry.name)
        assert is_name(told.tag)
        assert told.sentence
        assert "\n" not in told.sentence
        assert not told.sentence.endswith(".")
        assert entry.role == told.role in (CONFIGURATION, CAPABILITY)
        assert type(entry.default).__name__ == entry.kind
        if entry.kind == "str":
            assert entry.default in told.words
        elif entry.kind == "int":
            must_be_named = told.tag in ("tile", "warps", "atom", "gm")
            assert told.least <= int(entry.default or 0) <= told.most or (must_be_named and entry.default == 0)
            assert must_be_named == (entry.default == 0 < told.least)
            assert not told.words


@pytest.mark.parametrize("name", NAMES)
def test_fields_of_a_tag_are_neighbours(name: str) -> None:
    """Fields that share a tag stand side by side and are numbers."""
    entries = known_family(name).schema.fields[len(KEYS) :]
    tags = [entry.axis.tag for entry in entries if entry.axis]
    starts = [tag for before, tag in pairwise(["", *tags]) if tag != before]
    assert len(starts) == len(set(starts))
    assert all(entry.kind == "int" for entry, tag in zip(entries, tags, strict=True) if tags.count(tag) > 1)


def test_one_name_means_one_thing() -> None:
    """A field is of one kind, role and tag in all families that have it, and what relatives fix is of that kind."""
    meanings: dict[str, set[Any]] = {}
    for family in families().values():
        for entry in family.schema.fields:
            if entry.axis:
                meanings.setdefault(entry.name, set()).add((entry.kind, entry.role, entry.axis.tag))
        for name, value in family.schema.constants.items():
            if name in UNION:
                assert type(value).__name__ == UNION[name].kind, (family.name, name)
    assert all(len(found) == 1 for found in meanings.values()), meanings
    assert {tag for found in meanings.values() for _, role, tag in found if role == CAPABILITY} == {"subgemms"}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_family_lacks_cannot_be_set(name: str) -> None:
    """A field of other families, and what this one fixes, is refused wherever an identity is made or changed."""
    family, identity = known_family(name), kernel(name)
    lacking = (set(UNION) | set(family.schema.constants)) - set(family.schema.names)
    assert len(lacking) > 2
    for field in lacking:
        value = ABSENT[UNION[field].kind if field in UNION else type(family.schema.constants[field]).__name__]
        with pytest.raises(RequestError, match=rf"{name} kernels have no {field}; they have arch"):
            with_fields(identity, **{field: value})
        with pytest.raises(TypeError):
            family.record("gfx950", "bf16", "bf16", "bf16", **{field: value})
        with pytest.raises((TypeError, ValueError)):
            replace(identity, **{field: value})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"unknown .*{field}"):
            IdentityTable.from_columns(family.record, 1, {**dict.fromkeys(KEYS, "bf16"), field: value})
    with pytest.raises(AttributeError):
        identity.arch = "gfx942"  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_counts(name: str) -> None:
    """Changing any one field gives another identity with another label, which leads back to it."""
    identity = kernel(name)
    for entry in known_family(name).schema.fields:
        value = getattr(identity, entry.name)
        other: Any = not value if entry.kind == "bool" else value + 1 if entry.kind == "int" else value + "x"
        changed = with_fields(identity, **{entry.name: other})
        assert changed != identity
        assert encode(changed) != encode(identity)
        assert decode(encode(changed)) == changed


def test_fixed_fields_are_read_like_others() -> None:
    """Shared parts may ask any relative: what one family leaves open, the others answer."""
    gemms = [one for one in map(kernel, NAMES) if isinstance(one, Gemm)]
    assert len(gemms) == len(NAMES) - len(step_families())
    assert [one.family for one in gemms if one.split_k > 1] == ["atomic", "two_stage", "merged"]
    assert [one.family for one in gemms if one.stream_k] == ["stream_k"]
    assert [one.family for one in gemms if one.two_stage] == ["two_stage", "merged"]
    assert [one.family for one in gemms if one.group_merge != 1] == ["merged"]
    assert [one.family for one in gemms if isinstance(one, Dgrad) and one.folded] == ["stride1"]


# --- tables of several families --------------------------------------------------------------------------------------


def test_mixed_tables_read_like_rows() -> None:
    """`wide`, `flags`, `strings` and `equals` over families say of every row what it says itself, fixed or not."""
    rng = random.Random(21)
    names = set(UNION) | {name for family in families().values() for name in family.schema.constants}
    kinds = {name: entry.kind for name, entry in UNION.items()}
    for family in families().values():
        kinds |= {name: type(value).__name__ for name, value in family.schema.constants.items()}
    for trial in range(12):
        rows = [spoilt(identity, rng, rng.randint(0, 3)) for identity in sample(rng, 3)]
        if trial % 3 == 1:
            chosen = rng.sample(NAMES, 2)
            rows = [identity for identity in rows if identity.family in chosen]
        table = IdentityTable.from_identities(rows)
        assert table.strings(FAMILY).tolist() == [identity.family for identity in rows]
        for name in sorted(names):
            has = any(hasattr(identity, name) for identity in rows)
            wanted = [getattr(identity, name, ABSENT[kinds[name]]) for identity in rows]
            if not has:
                with pytest.raises(ValueError, match=name):
                    table.equals(name, wanted[0])
                continue
            if kinds[name] == "str":
                assert table.strings(name).tolist() == wanted
            else:
                assert table.wide(name).dtype == np.int64
                assert table.wide(name).tolist() == [int(value) for value in wanted], name
                assert table.flags(name).tolist() == [bool(value) for value in wanted]
            for value in {*wanted, ABSENT[kinds[name]]}:
                assert table.equals(name, value).tolist() == [other == value for other in wanted], name


def test_parts_of_mixed_tables() -> None:
    """The parts of a mixed table are the rows of each family in order, and hold fields of that family alone."""
    rng = random.Random(22)
    rows = sample(rng, 4)
    table = IdentityTable.from_identities(rows)
    assert [table.row(i) for i in range(len(table))] == rows
    seen = []
    for schema, index, part in table.parts():
        assert isinstance(index, np.ndarray)
        assert [rows[i] for i in index] == [part.row(i) for i in range(len(part))]
        assert set(part.columns) == {FAMILY, *schema.names}
        seen.append(schema.family)
    assert seen == sorted(NAMES)
    for direction in DIRECTIONS:
        assert table.of_direction(direction).tolist() == [identity.direction == direction for identity in rows]
    assert table.rows_equal_to(rows[7]).tolist() == [i for i, row in enumerate(rows) if row == rows[7]]
    halves = [IdentityTable.from_identities(rows[:31]), IdentityTable.from_identities(rows[31:])]
    assert [concat(halves).row(i) for i in range(len(rows))] == rows


# --- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_kernels_of_step_families(name: str) -> None:
    """What a plan launches beside a kernel is of the families that its family names, of its GPU, and can be built."""
    family = known_family(name)
    assert all(known_family(step).is_step for step in family.step_families)
    assert not (family.is_step and family.step_families)
    for arch in ("gfx950", "gfx942"):
        for identity in buildable(name, arch, random.Random(name), 30):
            steps = family.steps(identity)
            assert {step.family for step in steps} == set(family.step_families)
            for step in steps:
                assert (step.arch, step.dtype_d) == (arch, identity.dtype_d)
                assert evaluate(IdentityTable.from_identities([step])).buildable.all()
                if isinstance(step, Reduce):
                    assert isinstance(identity, Gemm)
                    assert step.ws_replicas == identity.ws_replicas


def test_steps_follow_what_the_kernel_says() -> None:
    """Each count of replicas has its reduction, of the data type of dW; every kernel of a type shares the fix-up."""
    for name in ("two_stage", "merged"):
        (step,) = known_family(name).steps(kernel(name, ws_replicas=4, dtype_a="fp16", dtype_b="fp16"))
        assert step == kernel("reduce", ws_replicas=4)
    steps = {known_family("stream_k").steps(kernel("stream_k", tile_m=tile)) for tile in (64, 128, 256)}
    assert steps == {(kernel("fix_up"),)}


# --- the list --------------------------------------------------------------------------------------------------------


def test_the_list() -> None:
    """Families go by the names of their records, in one list, and every record can be read by name."""
    assert list(families()) == [family.record.family for family in families().values()]
    assert all(family.name == name == family.schema.family for name, family in families().items())
    assert all(family.direction in DIRECTIONS and family.sentence for family in families().values())
    assert {name: known_schemas()[name] for name in families()} == {n: f.schema for n, f in families().items()}
    assert {name for name, family in families().items() if family.is_step} == step_families() == {"reduce", "fix_up"}
    assert all(not family.serving for family in families().values() if family.is_step)
    for name, family in families().items():
        assert family_of(kernel(name)) is known_family(name) is family
        assert schema_of(kernel(name)) is known_schema(name)
    for ask in (known_family, known_schema):
        with pytest.raises(UnknownValueError, match=r"kernel family 'winograd'.*implicit_gemm"):
            ask("winograd")


def test_selecting() -> None:
    """Directions and names narrow each other, in the order of the list; steps come with what needs them."""
    assert [family.name for family in select()] == list(NAMES)
    assert [family.name for family in select(["fwd"])] == ["implicit_gemm"]
    assert [family.name for family in select(["dgrad", "fwd"], ["stride1", "atomic"])] == ["stride1"]
    assert select(["fwd"], ["tilde"]) == ()
    assert [family.name for family in with_steps(select(None, ["stream_k", "merged"]))] == [
        "merged", "stream_k", "reduce", "fix_up"
    ]  # fmt: skip
    for arguments, word in (((["sideways"],), "sideways"), ((None, ["winograd"]), "winograd")):
        with pytest.raises(UnknownValueError, match=word):
            select(*arguments)


@dataclass(frozen=True, slots=True)
class Toy(Identity):
    """A family of the tests: two shades, one of which is never built."""

    family, direction = "toy", "fwd"

    shade: int = axis("shade", 1, "how dark it is", least=1, most=8)
    deep: bool = constant(True)


def toy_candidates(gpu: Target, dtype: str, axes: FamilyAxes) -> IdentityTable:
    return IdentityTable.from_identities(
        [Toy(gpu.arch, dtype, dtype, dtype, shade=int(shade)) for shade in axes["shade"]]
    )


TOY = Family(
    record=Toy,
    sentence="a family of the tests",
    axes={"shade": Choice((1, 2), (1, 2, 3))},
    candidates=toy_candidates,
    rules=(Rule("T1_shade", "two is no shade", lambda rows: rows.shade != 2, builder=True),),
)


def state() -> tuple[Any, ...]:
    return (
        list(families().items()), list(known_schemas().items()), reason_codes(), serving_reasons(),
        dict(explanations()), load_axes(),
    )  # fmt: skip


def test_added_families_come_and_go() -> None:
    """A family is everywhere while it is added, and nowhere before and after, even when the block fails."""
    before = state()
    with added(TOY):
        assert list(families()) == [*NAMES, "toy"]
        assert families()["toy"] is TOY
        assert reason_codes() == (*before[2], "T1_shade")
        assert explain("T1_shade") == "two is no shade"
        toy = Toy("gfx950", "bf16", "bf16", "bf16", shade=2)
        assert decode(encode(toy)) == toy
        (row,) = open_catalogue("gfx950", ["bf16"], families=["toy"]).count_rows()
        assert (row.candidates, row.admitted, row.buildable, row.rejected) == (2, 2, 1, {"T1_shade": 1})
        with pytest.raises(ValueError, match="'toy' already"):
            add(TOY)
        assert list(families()) == [*NAMES, "toy"]
    assert state() == before
    with pytest.raises(RuntimeError, match="on purpose"), added(TOY):
        raise RuntimeError("on purpose")
    assert state() == before
    with pytest.raises(UnknownValueError, match="toy"):
        known_family("toy")


def test_add_and_remove() -> None:
    """What is added stays until it is removed; a name that is taken is refused and nothing is lost."""
    before = state()
    add(TOY)
    assert known_schema("toy") is TOY.schema
    remove(TOY)
    assert state() == before
    with pytest.raises(ValueError, match="'fix_up' already"):
        add(fix_up.FAMILY)
    assert state() == before


def test_axes_that_are_shared_allow_what_all_can_make(tmp_path: Any) -> None:
    """An axis under every is what all families that have it can make; under a family's name, what that one can."""
    narrow = replace(TOY, axes={**TOY.axes, "tile_m": Choice((64,), (32, 64))})
    path = tmp_path / "axes.yaml"
    with added(narrow):
        path.write_text("every: {tile_m: [64], shade: [3]}\nfamilies: {implicit_gemm: {tile_m: [512]}}")
        axes = load_axes(path)
        assert (axes["toy"]["tile_m"], axes["toy"]["shade"]) == ((64,), (3,))
        assert (axes["tilde"]["tile_m"], axes["implicit_gemm"]["tile_m"]) == ((64,), (512,))
        path.write_text("every: {tile_m: [512]}")
        with pytest.raises(AxesError, match=r"every\.tile_m.*512.*32, 64"):
            load_axes(path)
    assert load_axes(path)["tilde"]["tile_m"] == (512,)
    path.write_text("families: {toy: {shade: [1]}}")
    with pytest.raises(AxesError, match=r"family 'toy'.*implicit_gemm"):
        load_axes(path)


def test_clashes_are_refused() -> None:
    """A name with two kinds, a field that says nothing of itself, and a second record for a family are errors."""

    @dataclass(frozen=True, slots=True)
    class Clash(Identity):
        family, direction = "clash", "fwd"
        tile_m: bool = axis("tile", False, "not a number of rows")

    @dataclass(frozen=True, slots=True)
    class Bare(Identity):
        family, direction = "bare", "fwd"
        shade: int = 1

    with pytest.raises(ValueError, match="tile_m is bool in family clash"):
        union_fields([known_schema("tilde"), replace(TOY, record=Clash).schema])
    with pytest.raises(TypeError, match=r"Bare\.shade"):
        add(replace(TOY, record=Bare))
    assert "bare" not in families()


# --- reasons ---------------------------------------------------------------------------------------------------------


def test_every_reason_has_one_sentence() -> None:
    """The vocabulary for people is complete, and has no sentence for a reason that does not exist."""
    codes = [code for code in (*reason_codes(), *serving_reasons()) if code]
    assert len(set(codes)) == len(codes)
    assert set(explanations()) == set(codes)
    assert all(sentence and "\n" not in sentence for sentence in explanations().values())
    assert all(explain(code) == sentence for code, sentence in explanations().items())
    with pytest.raises(UnknownValueError, match="F99_unheard"):
        explain("F99_unheard")
    # Verdicts of serving are bytes.
    assert len(serving_reasons()) < 128


def test_one_code_has_one_sentence() -> None:
    """Families that share a serving code mean the same by it, and decide on the same fields."""
    meanings: dict[str, set[Any]] = {}
    for family in families().values():
        codes = [rule.code for rule in family.serving]
        assert len(set(codes)) == len(codes)
        for rule in family.serving:
            meanings.setdefault(rule.code, set()).add(rule.sentence)
    assert all(len(found) == 1 for found in meanings.values())


def test_deciding_fields_exist() -> None:
    """A reason names fields that the families with its rule have; what is asked of every family is its name."""
    for family in families().values():
        for rule in family.serving:
            assert set(rule.fields) <= set(family.schema.by_name), (family.name, rule.code)
            assert any(deciding_fields(rule.code) == other.fields for known in families().values()
                       for other in known.serving if other.code == rule.code)  # fmt: skip
    assert {deciding_fields(code) for code in ASKED} == {("family",)}
    assert all(deciding_fields(code) == () for code in reason_codes())
    assert deciding_fields("S_sub_gemms") == ("max_sub_gemms",)
