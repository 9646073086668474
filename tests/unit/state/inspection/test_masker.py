"""Personal values are masked in keys and states, unless all are shown."""

from __future__ import annotations

import json
from typing import Any

from spark_jobs.event_windows.declaration import JOB as WINDOWS
from spark_jobs.fraud_watch.declaration import JOB as FRAUD
from spark_jobs.fraud_watch.model import FraudState, Payment, PaymentEvent
from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.watermark.admission import Seen
from stateward.state.inspection.key_report import Entry, PendingTimer, StateChange
from stateward.state.inspection.masker import Masker, masker_of
from stateward.state.inspection.state_changes import changes
from stateward.state.verbs.explain import Explanation

KEY = "alice@example.org"
MASKED = "al***(17)"
ID = "0123456789abcdef0123456789abcdef"


def kept(**changed: Any) -> dict[str, Any]:
    """The stored state of the account, decoded from JSON."""
    window = (Payment(1000, "e1", 5_000_000), Payment(2000, KEY, 7))
    state = FraudState("watching", 1000, 1000, 2000, ID, window)
    held = (PaymentEvent("e3", 3000, "transaction", 9),)
    codec = KeyStateCodec(FraudState, PaymentEvent)
    found: dict[str, Any] = json.loads(codec.encode(KeyState(state, held, (Seen("e1", 1000),), 500)))
    return {**found, **changed}


def test_a_state_shows_numbers_and_fields_declared_plain() -> None:
    shown = masker_of(FRAUD, shows_all=False).value(kept(remark="met alice in Rome"), KEY)
    assert shown["state"]["name"] == "watching"
    assert shown["state"]["summary_id"] == "***(32)", "derived from the account"
    assert shown["state"]["window"] == [[1000, "e1", 5_000_000], [2000, MASKED, 7]]
    assert shown["held"] == [["e3", 3000, "transaction", 9]]
    assert (shown["recent"], shown["floor_ms"]) == ([["e1", 1000]], 500)
    assert shown["remark"] == "***(17)", "its field is not declared"
    assert masker_of(FRAUD, shows_all=True).value(kept(), KEY) == kept()


def test_without_a_declaration_every_text_is_masked() -> None:
    assert Masker().text(json.dumps({"n": 1, "at": "2026-01-01T00:00:00.000Z", "who": "ann"})) == json.dumps(
        {"n": 1, "at": "2026-01-01T00:00:00.000Z", "who": "***(3)"}
    )
    assert Masker().text("alice@example.org") == MASKED
    assert Masker(shows_all=True).text("alice@example.org") == KEY


def test_rows_of_sparks_own_operators_are_masked_by_the_columns_of_the_tables() -> None:
    row = {
        "user_id": KEY,
        "window": {"start": "2026-01-01T00:00:00.000000Z"},
        "event_count": 3,
        "buf": "eA==",
    }
    shown = json.loads(masker_of(WINDOWS, shows_all=False).text(json.dumps(row), KEY))
    assert shown == {**row, "user_id": MASKED, "buf": "***(4)"}


def test_an_explanation_contains_no_personal_values() -> None:
    before, after = kept(), kept(state=None, held=[["e4", 4000, KEY, 1]])
    differing = changes(before, after)
    row = {"summary_id": ID, "account_id": KEY, "state": "watching", "transaction_count": 2}
    found = Explanation(
        *("fraud_watch", "file:/checkpoint", KEY, 7, 1, 7, 5, 5),
        entries=(Entry(0, "op", "keys", 0, 3, KEY, before, after, 10, 9, "idle"),),
        coming=(PendingTimer(9, "idle", differing, (("FraudSummary", row),), is_end=True),),
        bucket_timer_ms=9,
        history=(
            StateChange(7, 1, 1, "keys", KEY, "folded", differing, before),
            StateChange(7, 1, 1, "store", json.dumps({"account_id": KEY}), "came", differing, None),
        ),
        history_from=None,
        notes=(),
    )
    shown = masker_of(FRAUD, shows_all=False).explanation(found)
    assert KEY not in repr(shown) and ID not in repr(shown)
    assert shown.coming[0].rows == (("FraudSummary", {**row, "summary_id": "***(32)", "account_id": MASKED}),)
    assert [one.field for one in shown.coming[0].changes] == [one.field for one in differing]
    assert masker_of(FRAUD, shows_all=True).explanation(found) == found
