"""What each kind of batch job takes: `include/batch_jobs.yaml` as validated values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, ValidationError

from stateward.control.launchers.driver_process import LaunchError
from stateward.control.launchers.resources import Executors, executors_conf
from stateward.project.settings import Settings
from stateward.project.spec import SHARED, StreamSpec
from stateward.project.spec_fields import Count, Name, Part
from stateward.project.spec_health import Conf, Memory, Spark
from stateward.project.spec_problems import Problem, YamlDocument, problems_of, read_yaml

JobKind = Literal["validation", "state_operation", "reconciliation", "backfill", "try"]

_FILE = "batch_jobs.yaml"
_REMEDY = "Correct it; docs/spark-and-storage.md says what each field means."


class JobResourcesError(LaunchError):
    """The file cannot be used; the text lists every problem."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))


class JobResources(Part):
    """What a job takes; a field that is null is that of the level above.

    Attributes:
        driver_memory: Heap of the driver's JVM; null at all levels: that of the stream's driver.
        executors: Executors on a cluster; a local master has none.
        executor_cores: Cores of each.
        executor_memory: Heap of each.
        conf: Spark's settings, which are added to those of the level above.
    """

    driver_memory: Memory | None = None
    executors: Count | None = None
    executor_cores: Count | None = None
    executor_memory: Memory | None = None
    conf: Conf = Field(default={})

    def over(self, above: JobResources) -> JobResources:
        """Return what is set here, and what is set above where nothing is."""
        own = {name: value for name, value in self if value is not None}
        return above.model_copy(update={**own, "conf": {**above.conf, **self.conf}})


class BatchJobs(Part):
    """The file: defaults of all jobs, then by kind, then by stream and kind."""

    defaults: JobResources = JobResources()
    jobs: dict[JobKind, JobResources] = Field(default={})
    streams: dict[Name, dict[JobKind, JobResources]] = Field(default={})

    def of(self, kind: JobKind, stream: str) -> JobResources:
        """Return what a job takes."""
        by_kind = self.jobs.get(kind, JobResources())
        own = self.streams.get(stream, {}).get(kind, JobResources())
        return own.over(by_kind.over(self.defaults))


@dataclass(frozen=True)
class Submitted:
    """What `spark-submit` is given for a job.

    Attributes:
        driver_memory: Heap of its driver.
        conf: Spark's settings.
    """

    driver_memory: str
    conf: dict[str, str]


def submitted(kind: JobKind, spec: StreamSpec | None, settings: Settings, master: str) -> Submitted:
    """Return what is declared for a job; the stream's `spark.conf` goes before it.

    Args:
        kind: The kind of the job.
        spec: The stream it is about; None for the tables of all streams.
        settings: Where the file is.
        master: Where Spark runs.

    Raises:
        JobResourcesError: The file is not valid.
    """
    declared = load_batch_jobs(settings).of(kind, SHARED if spec is None else spec.stream)
    default, driver = Spark(), Spark() if spec is None else spec.spark
    executors = Executors(
        declared.executors or default.executors,
        declared.executor_cores or default.executor_cores,
        declared.executor_memory or default.executor_memory,
    )
    conf = {**declared.conf, **driver.conf}
    return Submitted(
        declared.driver_memory or driver.driver_memory, {**executors_conf(master, executors, conf), **conf}
    )


def load_batch_jobs(settings: Settings, streams: Collection[str] | None = None) -> BatchJobs:
    """Read the file, which lies beside the folder of the streams; without it the defaults hold.

    Args:
        settings: Where the folder is.
        streams: The streams that the file may name; None: any.

    Raises:
        JobResourcesError: The file is not valid; the text names file, line and field.
    """
    file = settings.streams.parent / _FILE
    if not file.exists():
        return BatchJobs()
    document = read_yaml(file)
    if isinstance(document, Problem):
        raise JobResourcesError([document])
    try:
        found = BatchJobs.model_validate({} if document.data is None else document.data)
    except ValidationError as error:
        problems = [replace(one, remedy=_REMEDY) for one in problems_of(error, document, BatchJobs, {})]
        raise JobResourcesError(problems) from None
    known = found.streams.keys() if streams is None else {*streams, SHARED}
    if unknown := [_unknown(document, name) for name in found.streams if name not in known]:
        raise JobResourcesError(unknown)
    return found


def _unknown(document: YamlDocument, name: str) -> Problem:
    place = ("streams", name)
    expected = "the name of a stream of the project, or shared"
    return Problem(document.file, document.line_of(place), ".".join(place), expected, repr(name), _REMEDY)
