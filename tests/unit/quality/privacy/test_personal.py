"""Which values tell of a person, and by what they are masked."""

from __future__ import annotations

import importlib
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.control.launchers.launch import resolved_configuration
from stateward.platform.mask_secret import mask_secret
from stateward.project.settings import Settings
from stateward.project.spec import load_spec, load_specs
from stateward.quality.privacy.masking import mask
from stateward.quality.privacy.personal import declared_table, masking_conflict, personal_columns
from stateward.quality.suites.suite import Expectation, load_suite
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.api.tables import Column, Table
from tests.support.streams.cases import CASES

SUITES = Path(__file__).resolve().parents[4] / "include" / "quality"


def test_every_column_of_a_person_is_declared_and_an_undeclared_text_is_taken_for_one() -> None:
    types = {"session_id": "string", "user_id": "string", "duration_ms": "bigint", "added": "string"}
    assert personal_columns("user_sessions", "sessions", types) == {"user_id", "session_id", "added"}
    assert personal_columns("shared", "dead_letters", {"key": "binary", "reason": "string"}) == {"key"}
    assert personal_columns("unknown", "any", {"a": "string", "n": "bigint"}) == {"a"}
    persons = {"user_id", "account_id", "source_ip"}
    for spec in load_specs()[0]:
        for name in spec.tables:
            table = declared_table(spec.stream, name)
            assert table
            for column in table.columns:
                assert column.personal or column.name not in persons, f"{name}.{column.name}"


def test_a_personal_column_needs_a_type_that_can_be_masked() -> None:
    with pytest.raises(ValueError, match=r"column born_on: expected a personal column to be one of string"):
        Column("born_on", "date", "Day of birth", personal=True)


def test_an_expectation_that_looks_into_masked_values_is_refused() -> None:
    looks = Expectation(
        "ip_is_an_ip", "expect_column_values_to_match_regex", {"column": "source_ip"}, "critical", "m", "r"
    )
    blind = Expectation(
        "ip_is_there", "expect_column_values_to_not_be_null", {"column": "source_ip"}, "critical", "m", "r"
    )
    assert masking_conflict([blind], frozenset({"source_ip"})) is None
    assert masking_conflict([looks], frozenset({"user_id"})) is None
    assert "'ip_is_an_ip' looks into values of source_ip" in str(
        masking_conflict([looks], frozenset({"source_ip"}))
    )


def test_the_secret_is_made_once_for_its_user_alone_and_a_given_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATEWARD_MASK_SECRET", raising=False)
    settings = Settings(home=tmp_path / "home")
    made = mask_secret(settings)
    assert len(made) == 64
    assert mask_secret(settings) == made
    [file] = settings.home.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setenv("STATEWARD_MASK_SECRET", "given")
    assert mask_secret(Settings(home=settings.home)) == "given"
    assert "STATEWARD_MASK_SECRET" not in Settings().environment()
    assert mask(made, "ann") != mask("given", "ann") == mask("given", b"ann")


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_shipped_suite_looks_into_masked_values(path: Path) -> None:
    table = declared_table("any", path.stem)
    assert table
    suite = load_suite(path, table)
    assert masking_conflict(suite.expectations, table.personal) is None


def test_what_is_derived_from_a_personal_column_is_masked_like_it() -> None:
    table = Table(
        "letters",
        "One letter",
        (
            Column("digest", "string", "Of the id", derived_from=("letter_id",)),
            Column("letter_id", "string", "Identity", derived_from=("writer", "written_at")),
            Column("writer", "string", "Who wrote it", personal=True),
            Column("written_at", "timestamp", "When"),
            Column("day", "string", "Day of it", derived_from=("written_at",)),
        ),
    )
    assert table.personal == {"digest", "letter_id", "writer"}
    with pytest.raises(
        ValueError, match=r"column letter_id to be derived from columns of the table, found who"
    ):
        replace(table, columns=(Column("letter_id", "string", "Identity", derived_from=("who",)),))
    number = Column("number", "long", "Identity", derived_from=("writer",))
    with pytest.raises(
        ValueError, match=r"column number, which is derived from a personal one, to be one of"
    ):
        replace(table, columns=(*table.columns, number))


@given(data=st.data())
@pytest.mark.parametrize("stream", sorted(CASES))
def test_no_column_that_depends_on_the_key_is_declared_otherwise(stream: str, data: st.DataObject) -> None:
    case = CASES[stream]
    moments = data.draw(st.lists(st.integers(0, 5000), min_size=1, max_size=12))
    values = [[data.draw(value) for value in case.values] for _ in moments]
    events = [
        case.event(f"e{number}", at_ms, *more)
        for number, (at_ms, more) in enumerate(zip(sorted(moments), values, strict=True))
    ]
    ann, bob = (replay_oracle(case.logic, key, events) for key in ("ann", "bob"))
    require_declared(case.job, ann, bob)


@pytest.mark.parametrize("stream", ["event_windows", "payment_auth_join", "session_windows"])
def test_no_column_of_a_native_stream_that_depends_on_the_key_is_declared_otherwise(stream: str) -> None:
    config = parse_config(resolved_configuration(load_spec(stream), Settings(), "r1"), "test")
    job = importlib.import_module(f"spark_jobs.{stream}.declaration").JOB
    kinds = {"kind": ("transaction", "authenticated"), "event_type": ("view", "click")}

    def rows(key: str) -> Sequence[tuple[Any, ...]]:
        events = []
        for number in range(6):
            record: dict[str, Any] = {field.name: None for field in job.fields(config)}
            record |= {name: choices[number % 2] for name, choices in kinds.items() if name in record}
            record |= {"event_id": f"e{number}", job.key.name: key}
            events.append(job.event(SimpleNamespace(**record), 60_000 * number))
        return list(job.oracle(events, config))

    ann, bob = rows("ann"), rows("bob")
    assert ann
    require_declared(job, ann, bob)


def require_declared(job: Any, ann: Sequence[tuple[Any, ...]], bob: Sequence[tuple[Any, ...]]) -> None:
    """Fail if rows of two keys with the same events differ where nothing is declared to come from the key."""
    tables = {output.row: output.table for output in job.outputs}
    assert [type(row) for row in ann] == [type(row) for row in bob]
    for one, other in zip(ann, bob, strict=True):
        table = tables[type(one)]
        names = [column.name for column in table.row_columns]
        differing = {name for name, mine, its in zip(names, one, other, strict=True) if mine != its}
        derived = {column.name for column in table.columns if job.key.name in column.derived_from}
        assert differing <= {job.key.name, *derived, *table.personal}, table.name
