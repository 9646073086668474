"""Replaces the last batch of a stream by one of ours: same offsets, same watermark, another state.

A batch that reads no records moves neither, but the watermark of the last batch would fire timers in ours. So
the copy runs our batch without a watermark, and gets the last batch's watermark afterwards. The stream's next
start then continues after our batch as it would have after the last one.
"""

from __future__ import annotations

import json
from typing import Any

from stateward.contract import storage
from stateward.state.files import checkpoint_copy

_WATERMARK, _NEXT_WATERMARK = "batchWatermarkMs", "nextBatchWatermarkMs"
_OF_THE_PLAN = (_WATERMARK, "batchTimestampMs")


def forget_watermark(checkpoint_uri: str, batch_id: int) -> None:
    """Remove the watermark of a copy, for its next batch."""
    plan, commit = f"offsets/{batch_id}", f"commits/{batch_id}"
    _change(checkpoint_uri, plan, {_WATERMARK: 0})
    _change(checkpoint_uri, commit, {_NEXT_WATERMARK: 0})


def replace_last_batch(source_uri: str, checkpoint_uri: str, batch_id: int) -> None:
    """Let the batch after ``batch_id`` of a copy replace that batch, whose files are restored.

    Args:
        source_uri: The checkpoint that was copied.
        checkpoint_uri: The copy, after `forget_watermark` and one batch.
        batch_id: The source's last batch.
    """
    for log in ("offsets", "commits"):
        _put(checkpoint_uri, f"{log}/{batch_id}", _text(source_uri, f"{log}/{batch_id}"))
    _, metadata, *sources = _text(source_uri, f"offsets/{batch_id}").split("\n")
    was = json.loads(metadata)
    following = f"offsets/{batch_id + 1}"
    _change(checkpoint_uri, following, {name: was[name] for name in _OF_THE_PLAN}, sources)
    committed = json.loads(_text(source_uri, f"commits/{batch_id}").split("\n")[1])
    _change(checkpoint_uri, f"commits/{batch_id + 1}", {_NEXT_WATERMARK: committed[_NEXT_WATERMARK]})


def continue_from(source_uri: str, batch_id: int, checkpoint_uri: str, own_batch: int) -> None:
    """Give a batch the watermark and the time of another checkpoint's batch.

    Args:
        source_uri: The other checkpoint.
        batch_id: Its batch.
        checkpoint_uri: The checkpoint to change.
        own_batch: The batch to change.
    """
    was = json.loads(_text(source_uri, f"offsets/{batch_id}").split("\n")[1])
    committed = json.loads(_text(source_uri, f"commits/{batch_id}").split("\n")[1])
    _change(checkpoint_uri, f"offsets/{own_batch}", {name: was[name] for name in _OF_THE_PLAN})
    following = {_NEXT_WATERMARK: committed[_NEXT_WATERMARK]}
    _change(checkpoint_uri, f"commits/{own_batch}", following)


def write_offsets(checkpoint_uri: str, batch_id: int, offsets: dict[str, Any]) -> None:
    """Set the end offsets of a batch."""
    _change(checkpoint_uri, f"offsets/{batch_id}", {}, [json.dumps(offsets)])


def write_sources(checkpoint_uri: str, batch_id: int, sources: list[str]) -> None:
    """Set the records of a batch's sources: their end offsets, with the plan.

    Args:
        checkpoint_uri: The checkpoint to change.
        batch_id: The batch to change.
        sources: A line for each source.
    """
    _change(checkpoint_uri, f"offsets/{batch_id}", {}, sources)


def _change(
    checkpoint_uri: str, path: str, changes: dict[str, Any], sources: list[str] | None = None
) -> None:
    """Change the metadata of a plan or a commit, and the offsets of its sources."""
    version, metadata, *rest = _text(checkpoint_uri, path).split("\n")
    changed = json.dumps({**json.loads(metadata), **changes}, separators=(",", ":"))
    _put(checkpoint_uri, path, "\n".join([version, changed, *(rest if sources is None else sources)]))


def _put(checkpoint_uri: str, path: str, text: str) -> None:
    storage.write_text(f"{checkpoint_uri}/{path}", text)
    storage.delete(f"{checkpoint_uri}/{checkpoint_copy.crc_path(path)}")


def _text(checkpoint_uri: str, path: str) -> str:
    text = storage.read_text(f"{checkpoint_uri}/{path}")
    assert text is not None  # `examine` found the last batch, and ours is complete
    return text
