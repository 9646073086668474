"""Where a checkpoint goes on, changed in the plan of its last batch: for copies only."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace

from stateward.contract import storage
from stateward.runtime.kafka.batch_plan import is_plan, offset_json, plan_from_json
from stateward.runtime.kafka.offsets import Offsets
from stateward.state.files import checkpoint_copy


def place_of(last_batch: int) -> str:
    """The file that says where the batch after ``last_batch`` begins, in a checkpoint's folder."""
    return f"offsets/{last_batch}" if last_batch >= 0 else "sources/0/0"


def change_offsets(
    checkpoint_uri: str, place: str, topics: Collection[str], change: Callable[[Offsets], Offsets]
) -> None:
    """Let a checkpoint go on elsewhere. Nothing happens if it has no such file.

    Args:
        checkpoint_uri: A copy.
        place: `place_of` its last batch.
        topics: By which a line of offsets is known; every scan of the query has a line of its own.
        change: From the offsets of a line to those in their place.
    """
    text = storage.read_text(f"{checkpoint_uri}/{place}")
    if text is None:
        return
    lines = [_changed(line, topics, change) for line in text.split("\n")]
    storage.write_text(f"{checkpoint_uri}/{place}", "\n".join(lines))
    checkpoint_copy.remove(f"{checkpoint_uri}/{checkpoint_copy.crc_of(place)}")


def _changed(line: str, topics: Collection[str], change: Callable[[Offsets], Offsets]) -> str:
    try:
        document = json.loads(line)
    except ValueError:
        return line  # the line with the version
    if not set(topics) & document.keys():
        return line
    plan = plan_from_json(document)
    offsets = change(plan.offsets)
    # A topic that was made anew has another id: the next plan takes note of it.
    after = replace(plan, offsets=offsets, ids={}).to_json() if is_plan(document) else offset_json(offsets)
    return json.dumps(after)
