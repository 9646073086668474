"""``python -m proof.truth REQUEST``: the expected output of each stream for the records on standard input.

The request is a JSON file ``{"recorded_ms": 1, "into": "<folder>", "configs": [...]}`` with resolved
configurations. The program writes ``<folder>/<stream>/<table>.jsonl`` and then prints one JSON object: by
stream its counts, or ``{"unknown": "<why>"}``.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import IO, Any

from proof.truth.expected import StreamTruth, TruthError
from proof.truth.frames import read_frames
from proof.truth.registry import truth_about
from proof.truth.write import write_expected
from stateward.runtime.api.config import parse_config


def run(request: dict[str, Any], source: IO[bytes]) -> dict[str, Any]:
    """Read all records, and write the expected output.

    Raises:
        TruthError: A record is not what its mark says.
    """
    truths: dict[str, StreamTruth] = {}
    answer: dict[str, Any] = {}
    readers: dict[str, list[StreamTruth]] = defaultdict(list)
    for document in request["configs"]:
        config = parse_config(document, "the request")
        try:
            truth = truths[config.stream] = truth_about(config, request["recorded_ms"])
        except TruthError as error:
            answer[config.stream] = {"unknown": str(error)}
        else:
            readers[config.topic].append(truth)
    for topic, records in read_frames(source):
        for truth in readers[topic]:
            for record in records:
                truth.see(record)
    into = Path(request["into"])
    for stream, truth in truths.items():
        answer[stream] = write_expected(into / stream, truth.finish())
    return answer


def main() -> int:
    """Read the request and the records; returns the exit code."""
    try:
        request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        print(json.dumps(run(request, sys.stdin.buffer)))
    except (TruthError, ValueError, OSError) as error:
        print(f"truth: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
