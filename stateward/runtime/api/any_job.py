"""The kinds of streams: keyed logic, Spark's operators, and landing of records as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, TypeVar, cast

from stateward.runtime.api.config import Config, ConfigError
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.api.tables import SHARED_TABLES

AnyJob = StreamJob | NativeJob | LandingJob

J = TypeVar("J", bound=AnyJob)


def writing(job: J, tables: Collection[str]) -> J:
    """The stream with those of its optional tables that ``tables`` names among its outputs.

    The ones that are left out remain `optional_outputs`.
    """
    chosen = tuple(one for one in job.optional_outputs if one.table.name in tables)
    if not chosen or isinstance(job, LandingJob):
        return job
    left = tuple(one for one in job.optional_outputs if one not in chosen)
    changed: Any = replace(job, outputs=(*job.outputs, *chosen), optional_outputs=left)
    return cast(J, changed)


def configured(job: J, config: Config) -> J:
    """The stream as a launch configures it.

    Raises:
        ConfigError: The YAML names a table that the stream does not have.
    """
    own = config.tables.keys() - {table.name for table in SHARED_TABLES}
    for problem in table_problems(job, own):
        raise ConfigError(f"stream {config.stream}: {problem}")
    return writing(job, config.tables)


def table_problems(job: AnyJob, tables: Collection[str]) -> Iterator[str]:
    """Yield how the tables that a YAML names do not fit the declaration.

    Args:
        job: The declaration.
        tables: The stream's own tables.
    """
    own = [one.table.name for one in (*job.outputs, *job.optional_outputs)]
    if unknown := sorted(set(tables) - set(own)):
        yield (
            f"expected tables to be some of {', '.join(own)}, found {', '.join(unknown)}: correct `tables` in"
            " the stream's YAML, or declare the table"
        )
    if missing := sorted({one.table.name for one in job.outputs} - set(tables)):
        yield (
            f"expected tables to name {', '.join(missing)}, which the stream always writes, found nothing:"
            " add it to `tables` in the stream's YAML"
        )
