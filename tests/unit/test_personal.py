"""Which values tell of a person, and by what they are masked."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from include.platform.mask_secret import mask_secret
from include.settings import Settings
from include.spec import load_specs
from spark_jobs.quality.masking import mask
from spark_jobs.quality.personal import complaint, declared_table, personal_columns
from spark_jobs.quality.suite import Expectation, load_suite
from spark_jobs.runtime.tables import Column

SUITES = Path(__file__).resolve().parents[2] / "include" / "quality"


def test_every_column_of_a_person_is_declared_and_an_undeclared_text_is_taken_for_one() -> None:
    types = {"session_id": "string", "user_id": "string", "duration_ms": "bigint", "added": "string"}
    assert personal_columns("user_sessions", "sessions", types) == {"user_id", "added"}
    assert personal_columns("shared", "dead_letters", {"key": "binary", "reason": "string"}) == {"key"}
    assert personal_columns("nobody", "any", {"a": "string", "n": "bigint"}) == {"a"}
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
    assert complaint([blind], frozenset({"source_ip"})) is None
    assert complaint([looks], frozenset({"user_id"})) is None
    assert "'ip_is_an_ip' looks into values of source_ip" in str(complaint([looks], frozenset({"source_ip"})))


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
    suite = load_suite(path)
    table = declared_table("any", suite.table)
    assert table
    personal = frozenset(column.name for column in table.columns if column.personal)
    assert complaint(suite.expectations, personal) is None
