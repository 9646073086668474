"""The verbs ``verdict`` and ``upgrade``: whether the current code and YAML may run on a state."""

from __future__ import annotations

from stateward.contract import storage
from stateward.state.compatibility.descriptor import declared_buckets, read_descriptor
from stateward.state.compatibility.setting_changes import changed_settings
from stateward.state.compatibility.start import judge_start
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.context import Context
from stateward.state.operation.verb import ReadOnly


class VerdictVerb(ReadOnly):
    """Judge a start on a savepoint, or on the current state."""

    name = "verdict"

    def apply(self) -> Answer:
        """Judge it."""
        return _judged(self.context, self.context.checkpoint(self.context.request.arguments["savepoint"]))


class UpgradeVerb(ReadOnly):
    """Judge a start on the state that is to be taken over; the DAG does the rest of an upgrade."""

    name = "upgrade"

    def apply(self) -> Answer:
        """Judge it, and list the settings that differ from the newest launch: name, before, now, as JSON."""
        context = self.context
        context.generation.require_settled(context.stream)
        answer = _judged(context, context.generation.uri)
        launched = storage.read_json(context.request.launched_uri) or {}
        # Not one that is in force already: the state has another number of buckets than its YAML.
        document = {**context.request.document, "state_buckets": self._declared_buckets()}
        changes = changed_settings(launched, document)
        lines = [f"Settings that change: {', '.join(name for name, *_ in changes)}."] if changes else []
        return Answer(
            (*answer.lines, *lines),
            (*answer.listings, Listing("Settings", ("setting", "before", "now"), changes)),
            # Where it may not start nothing has changed, and there is nothing to take back.
            {**answer.data, "changed": answer.is_good},
            is_good=answer.is_good,
        )

    def _declared_buckets(self) -> int:
        found = read_descriptor(self.context.generation.uri) or {}
        return declared_buckets(found, self.context.request.config)


def _judged(context: Context, uri: str) -> Answer:
    verdict = judge_start(context.job, context.request.config, uri)
    rows = [
        (str(one.level), one.what, one.before, one.now, one.consequence, "; or ".join(one.ways_out))
        for one in verdict.findings
    ]
    may = "may" if verdict.allows_start else "may not"
    return Answer(
        (f"{context.stream}: {verdict.level}. The current code and YAML {may} run on this state.",),
        (Listing("Findings", ("verdict", "what", "before", "now", "consequence", "ways out"), rows),),
        verdict.as_json(),
        is_good=verdict.allows_start,
    )
