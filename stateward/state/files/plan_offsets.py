"""Changes the end offsets in the plan of a checkpoint copy's last batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace

from stateward.contract import storage
from stateward.runtime.kafka.batch_plan import is_plan, offset_json, plan_from_json
from stateward.runtime.kafka.offsets import Offsets
from stateward.state.files import checkpoint_copy


def place_of(last_batch: int) -> str:
    """Path in a checkpoint of the file with the start offsets of the batch after ``last_batch``."""
    return f"offsets/{last_batch}" if last_batch >= 0 else "sources/0/0"


def change_offsets(
    checkpoint_uri: str, place: str, topics: Collection[str], change: Callable[[Offsets], Offsets]
) -> None:
    """Change the offsets from which a checkpoint continues. Does nothing if the file does not exist.

    Args:
        checkpoint_uri: A copy of a checkpoint.
        place: Path from `place_of`.
        topics: Topics that identify a line of offsets; each scan of the query has its own line.
        change: Maps the offsets of a line to the new ones.
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
        return line  # the version line
    if not set(topics) & document.keys():
        return line
    plan = plan_from_json(document)
    offsets = change(plan.offsets)
    # A recreated topic has another id, which the next plan records.
    after = replace(plan, offsets=offsets, ids={}).to_json() if is_plan(document) else offset_json(offsets)
    return json.dumps(after)
