"""verdict: may this code run on this checkpoint, and what happens to its state? Pure.

It compares descriptors (`descriptor`), never the state itself, and only the parts that both have.
docs/state-compatibility.md lists the changes and their consequences.
"""

from collections.abc import Iterator
from typing import Any

from stateward.state.compatibility.findings import (
    REVERT,
    START_OVER,
    Descriptor,
    Finding,
    Level,
    Verdict,
    verdict_of,
)
from stateward.state.compatibility.key_findings import key_findings
from stateward.state.compatibility.schema_findings import schema_findings
from stateward.state.compatibility.setting_findings import setting_findings
from stateward.state.compatibility.store_findings import store_findings


def judge(before: Descriptor | None, now: Descriptor) -> Verdict:
    """Compare the descriptor of a checkpoint with that of code and YAML.

    Args:
        before: The checkpoint's descriptor; None if there is no state yet.
        now: That of the code and the YAML.
    """
    if before is None:
        return verdict_of(())
    if before["format"] > now["format"]:
        return verdict_of((_newer(before, now),))
    identity = tuple(_identity(before, now))
    if identity:
        # The rest cannot be compared across streams or kinds.
        return verdict_of(identity)
    findings = [*_sources(before, now), *_outputs(before, now), *store_findings(before, now)]
    findings += [*key_findings(before, now), *setting_findings(before, now), *schema_findings(before, now)]
    if before["format"] == 0:
        findings.append(_undescribed())
    return verdict_of(findings)


def _newer(before: Descriptor, now: Descriptor) -> Finding:
    return Finding(
        Level.INCOMPATIBLE,
        "the checkpoint's descriptor",
        f"of format {before['format']}",
        f"of format {now['format']}",
        "a newer release of Stateward wrote it; this one cannot read it",
        ("start the newer release",),
    )


def _undescribed() -> Finding:
    return Finding(
        Level.COMPATIBLE,
        "the checkpoint's descriptor",
        "not written",
        "written from now on",
        "an older release made the checkpoint: only Spark's own files were compared",
    )


def _identity(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    for name, what in (("stream", "the stream"), ("kind", "the kind of the stream")):
        if name in before and before[name] != now[name]:
            yield Finding(
                Level.INCOMPATIBLE,
                what,
                before[name],
                now[name],
                "the state belongs to another stream, and means nothing to this code",
                ("start it on a checkpoint of its own", START_OVER),
            )


def _sources(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    olds, news = set(before["topics"]), set(now["topics"])
    gone, come = sorted(olds - news), sorted(news - olds)
    if gone:
        yield Finding(
            Level.INCOMPATIBLE,
            "the source topics",
            ", ".join(before["topics"]),
            ", ".join(now["topics"]),
            f"the state and the offsets are those of {', '.join(gone)}",
            (REVERT, "give the new topic a stream of its own", START_OVER),
        )
    elif come:
        yield Finding(
            Level.EVOLVES,
            "the source topics",
            ", ".join(before["topics"]),
            ", ".join(now["topics"]),
            f"{', '.join(come)} is read from its beginning",
        )


def _outputs(before: Descriptor, now: Descriptor) -> Iterator[Finding]:
    olds, news = before.get("outputs"), now["outputs"]
    if olds is None:
        return
    for name in sorted(olds.keys() - news.keys()):
        if name in now.get("not_written", ()):
            consequence = "it has no rows from now on; those of the states that are open now are not written"
            yield Finding(Level.EVOLVES, f"the output table {name}", "written", "not written", consequence)
            continue
        yield Finding(
            Level.NEEDS_MIGRATION,
            f"the output table {name}",
            "written",
            "not written",
            "open states would silently end without their row in that table",
            ("put the table back", START_OVER),
        )
    for name in sorted(news.keys() - olds.keys()):
        consequence = "it has rows from now on"
        yield Finding(
            Level.EVOLVES, f"the output table {name}", "not written", "written", consequence, ("backfill it",)
        )
    for name in sorted(olds.keys() & news.keys()):
        yield from _table(name, olds[name], news[name])


def _table(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Finding]:
    if old["current_by"] != new["current_by"]:
        yield Finding(
            Level.NEEDS_MIGRATION,
            f"the columns by which {name} has one current row",
            ", ".join(old["current_by"]) or "none",
            ", ".join(new["current_by"]) or "none",
            "existing rows would not be found, and would stay beside their successors",
            (REVERT, "write to a table of another name"),
        )
    before, now = old["columns"], new["columns"]
    for column in sorted(before.keys() | now.keys()):
        was, is_ = before.get(column, "not there"), now.get(column, "not there")
        what = f"the column {name}.{column}"
        if column not in before or column not in now:
            consequence = "the table has the old columns: the next write fails, and nothing is lost"
            ways = (f"alter the table {name} before the start", REVERT)
            yield Finding(Level.EVOLVES, what, was, is_, consequence, ways)
        elif was != is_:
            consequence = "the table keeps the old type: values are silently cast to it, or the write fails"
            ways = (REVERT, "give the new type a column of its own")
            yield Finding(Level.NEEDS_MIGRATION, what, was, is_, consequence, ways)
