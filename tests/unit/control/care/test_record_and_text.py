"""The record of a state's care, its schedule, and what people read about a decision."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from stateward.alerts.notifier_config import Declared
from stateward.alerts.state_care import care_message
from stateward.alerts.template_context import incident_context
from stateward.contract.state_care import CareRecord, Change
from stateward.control.care.cost import Cost
from stateward.control.care.policy import Policy, Rules, decide
from stateward.control.care.record import add_change, add_look, end_change, read_record, record_uri
from stateward.control.care.schedule import rules_of, schedule_of
from stateward.control.care.text import (
    answer_text,
    cost_text,
    decision_text,
    outcome_text,
    question,
    reason_texts,
    saving_texts,
)
from stateward.pages.access import dags_of_operation
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from tests.support.small_spec import small_spec
from tests.unit.control.care.test_policy import LOOK, MORE, NOW, OLD, UNEVEN, changed, nightly, rules


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.of(Settings(home=tmp_path))


def test_a_look_is_kept_once_and_old_ones_go(layout: Layout) -> None:
    for day in range(70):
        record = add_look(layout, "s", replace(LOOK, at=NOW + timedelta(days=day)))
    assert (len(record.looks), record.looks[-1].at) == (60, NOW + timedelta(days=69))
    again = add_look(layout, "s", replace(MORE, at=NOW + timedelta(days=69)))
    assert (len(again.looks), again.looks[-1].advised) == (60, 4), "a retry replaces its look"
    assert read_record(layout, "s") == again


def test_a_change_is_on_record_before_it_is_made_and_ends_once(layout: Layout) -> None:
    add_change(layout, "s", changed(at=NOW, outcome="begun", run="state_operations/r"))
    assert end_change(layout, "s", "state_operations/another", "done", NOW) is None
    ended = end_change(layout, "s", "state_operations/r", "done", NOW + timedelta(seconds=75))
    assert ended is not None
    assert (ended.outcome, ended.pause_s) == ("done", 75)
    # A retry of the task finds what the first try has written.
    assert end_change(layout, "s", "state_operations/r", "failed", NOW + timedelta(seconds=99)) == ended


def test_a_record_that_cannot_be_read_begins_again(layout: Layout, caplog: pytest.LogCaptureFixture) -> None:
    uri = record_uri(layout, "s")
    assert uri.endswith("/control/s.care.json")
    file = Path(uri.removeprefix("file://"))
    file.parent.mkdir(parents=True)
    for broken in ("{", '{"version": 9}', '{"version": 1, "looks": 3}'):
        file.write_text(broken)
        assert read_record(layout, "s") == CareRecord(stream="s")
    assert "stream s: the record of its care cannot be read" in caplog.text


def test_a_window_opens_by_the_section_by_that_of_an_older_release_or_by_the_name(tmp_path: Path) -> None:
    assert schedule_of(small_spec(tmp_path)) == "19 2 * * *"
    old = small_spec(tmp_path, savepoints={"schedule": "0 4 * * *"})
    assert schedule_of(old) == "0 4 * * *"
    both = small_spec(tmp_path, savepoints={"schedule": "0 4 * * *"}, state_care={"schedule": "0 5 * * 0"})
    assert schedule_of(both) == "0 5 * * 0"
    limits = {"max_pause": "5m", "max_partitions": 8}
    found = rules_of(small_spec(tmp_path, state_care={"policy": "auto", "looks": 2, "limits": limits}))
    assert found == rules("auto", looks=2, max_pause=timedelta(minutes=5), max_partitions=8)


def test_a_person_reads_the_change_its_reasons_cost_and_saving_and_until_when() -> None:
    look = replace(MORE, median_bytes=100_000_000, reasons=("4 for 400,000,000 bytes",))
    decision = decide(rules("approve"), nightly(look), NOW)
    text = question("s", decision.proposals[0], "/stateward/operations/s/x/index.html", "07:00 UTC")
    for part in (
        "**s: 4 partitions in place of 2**",
        "- The load or the state needs more partitions: 4 in place of 2.",
        "- The largest partition is 2.2 times the median, more than 1.5.",
        "- Calculated: 4 for 400,000,000 bytes.",
        "The stream is stopped for about 3 min 26 s (estimated from the size); 1.6 GB are written.",
        "- Largest partition: 220 MB before, about 100 MB after.",
        "- Tasks of a batch on the state: 2 before, 4 after.",
        "- A busy batch: 800 ms before, about 400 ms after",
        "[Page of the dry run](/stateward/operations/s/x/index.html)",
        "Without an answer until 07:00 UTC nothing changes.",
    ):
        assert part in text
    assert "dry run" not in question("s", decision.proposals[0], "", "07:00 UTC")


def test_an_answer_has_the_name_of_the_person() -> None:
    assert answer_text(approved=True, by="ann") == "Approved by ann."
    assert answer_text(approved=False, by="ann") == "Rejected by ann; nothing is changed."
    assert answer_text(approved=False, by="").startswith("No answer")


def test_a_decision_is_one_sentence_with_its_reason() -> None:
    def text(record: CareRecord, found: Rules | None = None) -> str:
        found = found or rules()
        return decision_text("s", decide(found, record, NOW), found)

    assert text(nightly(LOOK)) == "s: nothing to change: the state is as it should be."
    assert text(nightly(MORE)).endswith("proposed only, 1 of 3 looks in a row have advised it.")
    assert "the expected pause of 3 min 26 s is longer than max_pause, 1 s" in text(
        nightly(MORE, MORE, MORE), rules(max_pause=timedelta(seconds=1))
    )
    assert text(nightly(UNEVEN)).startswith("s: 256 buckets in place of 64: proposed only")
    assert text(nightly(MORE), rules("approve")).endswith("waits for a person, the policy is approve.")
    [migration] = decide(rules(), nightly(OLD), NOW).proposals
    assert reason_texts(migration) == ["States of version 1 may be left; the code writes version 2."]
    assert "no state is converted when it is read" in saving_texts(migration)[0]
    assert "(as the last change of its kind)" in cost_text(Cost(90, 0, is_measured=True))


def test_a_report_says_what_became_of_a_decision() -> None:
    def text(policy: Policy, act: str) -> str:
        return outcome_text("s", decide(rules(policy), nightly(MORE), NOW), rules(policy), act)

    for act, became in (("success", "done"), ("failed", "failed"), ("skipped", "not done")):
        assert text("approve", act) == f"s: 4 partitions in place of 2: {became}, the policy is approve."
    assert "proposed only, the policy is propose" in text("propose", "skipped")


def test_what_auto_did_is_sent_to_every_notifier_and_what_failed_is_critical() -> None:
    done = changed(at=NOW, pause_s=75.0, run="state_operations/r")
    message = care_message("s", done, ["It grew."], "", NOW)
    found = incident_context(message, "https://a", "state_s/r")
    assert found["title"] == "Done: s: 2 partitions in place of 1"
    assert "It took 1 min 15 s." in found["text"]
    assert "Reasons: It grew." in found["text"]
    assert (found["event"], found["level"], found["topic"]) == ("acted", "warn", "state_care")
    notifier = Declared.model_validate({"class": "a.B"})
    assert notifier.wants(message)
    assert not Declared.model_validate({"class": "a.B", "on": ["opened"]}).wants(message)

    failed: Change = replace(done, outcome="failed")
    message = care_message("s", failed, [], "act: the stream does not run", NOW)
    found = incident_context(message, "https://a", "state_s/r")
    assert found["title"] == "critical: s: a change of its state has failed: 2 partitions in place of 1"
    assert "act: the stream does not run" in found["text"]


def test_the_page_of_a_run_is_for_those_who_may_read_its_dags() -> None:
    path = "user_sessions/20260101T000000Z-care/index.html"
    assert dags_of_operation(path) == ["stream_user_sessions", "state_user_sessions"]
