"""Findings about the clock and the settings of a stream: when a change applies. Pure."""

from collections.abc import Iterator
from typing import Any

from stateward.state.compatibility.findings import REVERT, START_OVER, Descriptor, Finding, Level

_CLOCK = {
    "processing": "states have event times, and the wall clock would expire all of them at once",
    "event": "states have wall-clock times, and events older than the watermark would be late",
}
_EMISSION = {
    "eager": "held events are folded when their key is next processed; nothing is lost, and from then on "
    "rows depend on the order of arrival",
    "watermark": "nothing is lost; an existing state keeps what was folded in the order of arrival, and "
    "later events are folded in the order of their times",
}
_LATER = "applies to a key from its next event, or from when its current timeout would have been due"
_NATIVE = "Spark silently continues the open groups, which started under the old one"


def setting_findings(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    """Compare clock, emission, lateness, jitter, and the settings of the logic."""
    if "clock" not in before or "clock" not in now:
        return
    if before["clock"] != now["clock"]:
        values = (before["clock"], now["clock"])
        yield Finding(Level.INCOMPATIBLE, "the clock", *values, _CLOCK[now["clock"]], (REVERT, START_OVER))
    elif before["emission"] != now["emission"]:
        values = (before["emission"], now["emission"])
        yield Finding(Level.EVOLVES, "the emission", *values, _EMISSION[now["emission"]])
    yield from _lateness(before["allowed_lateness_ms"], now["allowed_lateness_ms"])
    if before["timeout_jitter_ms"] != now["timeout_jitter_ms"]:
        values = (f"{before['timeout_jitter_ms']} ms", f"{now['timeout_jitter_ms']} ms")
        yield Finding(Level.EVOLVES, "the jitter of timeouts", *values, f"{_LATER}; no value changes")
    if now["kind"] == "native":
        yield from _watermarks(before.get("watermarks") or {}, now.get("watermarks") or {})
        yield from _native(before, now)
    else:
        yield from _logic(before["logic"], now["logic"])


def _watermarks(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Finding]:
    """Compare those of a stream in which each topic has one."""
    if not old or not new:
        return  # the plan is another one
    if old["policy"] != new["policy"]:
        yield Finding(
            Level.INCOMPATIBLE,
            "the policy of several watermarks",
            old["policy"],
            new["policy"],
            "Spark silently continues with the one that is in the checkpoint",
            (REVERT, START_OVER),
        )
    for name, before, now in _different(old["allowed_lateness_ms"], new["allowed_lateness_ms"]):
        consequence = "its watermark follows the new one; ids already forgotten stay forgotten"
        yield Finding(Level.EVOLVES, f"the allowed lateness of {name} (ms)", before, now, consequence)


def _lateness(old: int, new: int) -> Iterator[Finding]:
    if old == new:
        return
    longer = (
        "ids already forgotten stay forgotten: a repeated record older than that counts again, or is late"
    )
    consequence = longer if new > old else "held events are folded sooner, and ids are forgotten sooner"
    yield Finding(Level.EVOLVES, "the allowed lateness", f"{old} ms", f"{new} ms", consequence)


def _logic(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Finding]:
    for name, before, now in _different(old, new):
        consequence = f"{_LATER}; values stored in a state stay"
        if name == "max_held_events":
            consequence = "a key that holds more folds the oldest when it is next processed; nothing is lost"
        elif not name.endswith("_ms"):
            consequence = "applies to a key from its next event; values stored in a state stay"
        yield Finding(Level.EVOLVES, f"the setting logic.{name}", before, now, consequence)


def _native(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    for name, old, new in _different(before["logic"], now["logic"]):
        what = f"the setting logic.{name} of the plan"
        yield Finding(Level.INCOMPATIBLE, what, old, new, _NATIVE, (REVERT, START_OVER))
    if before["operators"] != now["operators"]:
        olds, news = (
            [one for one in first if one not in second] or ["the same operators in another order"]
            for first, second in (
                (before["operators"], now["operators"]),
                (now["operators"], before["operators"]),
            )
        )
        consequence = "Spark finds operators by their number: one reads the state of another, or rejects it"
        values = ("; ".join(olds), "; ".join(news))
        yield Finding(Level.INCOMPATIBLE, "the plan's operators", *values, consequence, (REVERT, START_OVER))
    for name, old, new in _different(before["fields"], now["fields"]):
        consequence = "events in Spark's state have the old columns: a plan that uses it reads another schema"
        level = Level.EVOLVES if name not in before["fields"] else Level.INCOMPATIBLE
        yield Finding(level, f"the input field {name}", old, new, consequence, (REVERT, START_OVER))


def _different(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield name, str(old.get(name, "not set")), str(new.get(name, "not set"))
