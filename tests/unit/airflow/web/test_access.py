"""Which DAGs the pages take: `tests/airflow/web/test_access.py` has people ask for them."""

from __future__ import annotations

import pytest

from stateward.pages.access import dags_of_operation, dags_of_report
from stateward.project.spec import load_specs

SPECS = load_specs()[0]
EVERY = [f"stream_{spec.stream}" for spec in SPECS if spec.quality] + ["quality_shared"]


@pytest.mark.parametrize(
    ("path", "dags"),
    [
        ("users/20260101T000000Z-inspect/index.html", ["stream_users", "state_inspection"]),
        ("users/20260101T000000Z-inspect-2/index.html", ["stream_users", "state_inspection"]),
        ("users/20260101T000000Z-seed/index.html", ["stream_users", "state_operations"]),
        ("users/20260101T000000Z-unknown/index.html", None),
        ("users/20260101T000000Z-seed/request.json", None),
        ("users/../other/20260101T000000Z-inspect/index.html", None),
        ("users/20260101T000000Z-inspect/../20260101T000000Z-seed/index.html", None),
        ("", None),
    ],
)
def test_the_page_of_an_operation_takes_its_stream_and_its_verb(path: str, dags: list[str] | None) -> None:
    assert dags_of_operation(path) == dags


@pytest.mark.parametrize(
    ("path", "dags"),
    [
        (
            "validations/sessions/user_sessions_v1-20_scheduled__1_1/20260101T000000Z/a-b.html",
            ["stream_user_sessions"],
        ),
        # A stream whose YAML was removed.
        ("validations/gone/gone_v2_v1-20_manual__1/20260101T000000Z/a.html", ["stream_gone_v2"]),
        ("validations/dead_letters/shared_v1-2_x/20260101T000000Z/a.html", ["quality_shared"]),
        ("validations/sessions/without a range/20260101T000000Z/a.html", None),
        ("validations/sessions/user_sessions_v1-2_x/../fraud_watch_v1-2_x/20260101T000000Z/a.html", None),
        ("expectations/fraud_alerts.html", ["stream_fraud_watch"]),
        ("expectations/late_events.html", ["quality_shared"]),
        ("expectations/gone.html", EVERY),
        ("index.html", EVERY),
        ("../secret.html", None),
    ],
)
def test_a_report_takes_its_stream_and_the_list_takes_all(path: str, dags: list[str] | None) -> None:
    assert dags_of_report(path, SPECS) == dags
