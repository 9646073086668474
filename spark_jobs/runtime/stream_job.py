"""What a stream declares about itself; the runtime does the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.runtime.tables import Table
from spark_jobs.runtime.validation import Field

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    from spark_jobs.runtime.config import Config


@dataclass(frozen=True)
class StreamJob:
    """One stream.

    Attributes:
        key: The field by which it is keyed.
        fields: All declared input fields, the key among them, as the configuration allows them.
        processor: Makes the processor.
        output_ddl: Schema of the processor's rows (`rows.output_ddl`).
        kind: Tag of the stream's own rows.
        table: The table of those rows.
        select: SQL from the struct of ``kind`` to the table's columns.
    """

    key: Field
    fields: Callable[[Config], tuple[Field, ...]]
    processor: Callable[[Config], StatefulProcessor]
    output_ddl: str
    kind: str
    table: Table
    select: tuple[str, ...]
