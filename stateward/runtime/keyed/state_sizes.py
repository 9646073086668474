"""The size of a keyed stream's state, from what its buckets report. Pure.

The stateful operator reports the size of each bucket that it processes, which it keeps incrementally. The
other buckets have the size of an earlier batch; the status of the driver before has those of the batches
before this driver's start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stateward.contract.reading import as_json
from stateward.contract.stream_status import Buckets, BucketSize

_UNKNOWN = dict.fromkeys(("state_keys", "live_bytes", "largest_key_bytes", "partition_bytes"))


class StateSizes:
    """The sizes of all buckets.

    Args:
        buckets: The number of buckets.
        new: Whether the checkpoint is new, so that every bucket is empty.
    """

    def __init__(self, buckets: int, *, new: bool) -> None:
        self._unknown = set() if new else set(range(buckets))
        self._sizes: dict[int, BucketSize] = {}
        self._generation: int | None = None

    def carry(self, generation: int, document: object) -> None:
        """Take over what the driver before has last reported, unless it is of another checkpoint.

        A driver that was killed may have reported a batch that it did not commit, or not its last one; those
        buckets are right again with their next batch.

        Args:
            generation: The current checkpoint.
            document: ``buckets`` of its status; anything, because another release may have written it.
        """
        self._generation = generation
        try:
            before = msgspec.convert(document, Buckets)
            sizes = {int(bucket): size for bucket, size in before.sizes.items()}
        except (msgspec.ValidationError, ValueError):
            return
        if before.generation == generation:
            # Buckets that are empty are not in the document, so it counts only if it was complete.
            self._sizes = {**sizes, **self._sizes}
            self._unknown -= set(sizes) if before.unknown else self._unknown

    def note(self, sizes: Mapping[int, Sequence[int]]) -> None:
        """Set the sizes of buckets, in the order of `BucketSize`."""
        for bucket, size in sizes.items():
            self._unknown.discard(bucket)
            found = BucketSize(*size)
            if found.keys:
                self._sizes[bucket] = found
            else:
                self._sizes.pop(bucket, None)

    @property
    def fields(self) -> dict[str, Any]:
        """Status fields; the totals are None until every bucket is known."""
        # The sink notes sizes in another thread: the copy after this has every bucket that is known here.
        unknown = len(self._unknown)
        sizes = dict(sorted(self._sizes.items()))
        document = None
        if self._generation is not None:
            named = {str(bucket): size for bucket, size in sizes.items()}
            document = as_json(Buckets(self._generation, unknown, named))
        if unknown:
            return {"buckets": document, **_UNKNOWN}
        partitions = dict.fromkeys(sorted({size.partition for size in sizes.values()}), 0)
        for size in sizes.values():
            partitions[size.partition] += size.bytes
        return {
            "buckets": document,
            "state_keys": sum(size.keys for size in sizes.values()),
            "live_bytes": sum(size.bytes for size in sizes.values()),
            "largest_key_bytes": max((size.largest for size in sizes.values()), default=0),
            "partition_bytes": {str(number): total for number, total in partitions.items()},
        }
