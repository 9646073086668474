"""The desired state of a stream: `include/streams/<stream>.yaml` as a validated model."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SerializeAsAny, ValidationError, ValidationInfo, field_validator, model_validator

from stateward.contract.names import PLATFORM_TABLES, SHARED_TABLES, TICK_TOPICS
from stateward.project.project import NAME_PATTERN
from stateward.project.settings import Settings
from stateward.project.spec_fields import Duration, Name, Part
from stateward.project.spec_health import Health, Lease, Restart, Spark, Timeout
from stateward.project.spec_kafka import EventTime, KafkaSink, Source
from stateward.project.spec_logic import Logic, LookupSource, logic_model
from stateward.project.spec_problems import Problem, YamlDocument, parse_yaml, problems_of, read_yaml
from stateward.project.spec_quality import Quality, Reconciliation
from stateward.project.spec_state import Savepoints, State, StateCare, StateExport
from stateward.project.unexpected_value import UnexpectedValueError

SHARED = "shared"
"""Stands for a stream where a table is that of all streams."""


class StreamSpec(Part):
    """One stream, as its YAML file wants it to be."""

    stream: Name = Field(description="the name of the stream, of its file and of its package in `spark_jobs`")
    description: str = Field(min_length=1, description="what the stream does, for a person")
    owner: str = Field(min_length=1, description="who answers for it: the owner of its DAGs and tables")
    desired: Literal["running", "suspended", "stopped"] = Field(
        "running", description="what `run` brings about; a person may override it (docs/supervision.md)"
    )
    source: Source
    event_time: EventTime
    lookups: dict[Name, LookupSource] = Field(
        default={}, description="by name the tables by which its events are enriched (docs/lookups.md)"
    )
    clock: Literal["event", "processing"] = Field(
        "event", description="whose time counts: the events', or the broker's (docs/architecture.md)"
    )
    emission: Literal["watermark", "eager"] = Field(
        "watermark",
        description="`watermark` holds events until their order is final, `eager` processes them on arrival",
    )
    timeout: Timeout = Timeout()
    logic: SerializeAsAny[Logic] = Field(default=Logic(), validate_default=True)
    trigger_interval: Duration = Field(timedelta(seconds=1), description="a batch starts at most this often")
    state: State = State()
    tables: list[Name] = Field(min_length=1, description="the stream's tables, without shared ones")
    kafka_sink: KafkaSink | None = None
    spark: Spark = Spark()
    lease: Lease = Lease()
    health: Health = Health()
    restart: Restart = Restart()
    quality: Quality | None = None
    savepoints: Savepoints | None = Savepoints()
    state_care: StateCare = StateCare()
    state_export: StateExport | None = None
    reconciliation: Reconciliation = Reconciliation()

    @field_validator("logic", mode="before")
    @classmethod
    def _logic_of_this_stream(cls, value: object, info: ValidationInfo) -> object:
        model = logic_model(info.data.get("stream"), (info.context or {}).get("jobs"))
        if type(value) is Logic:  # the default: there is no such section
            return model()
        return model.model_validate(value) if isinstance(value, dict) else value

    @field_validator("tables")
    @classmethod
    def _own_tables(cls, value: list[str]) -> list[str]:
        taken = sorted(set(value) & {*SHARED_TABLES, *PLATFORM_TABLES})
        if taken or len(set(value)) != len(value):
            raise UnexpectedValueError(f"distinct names other than the shared tables, of which {taken} are")
        return value

    @model_validator(mode="after")
    def _quality_knows_its_tables(self) -> Self:
        named = self.quality.tables if self.quality else []
        if not set(named) <= set(self.tables) or len(set(named)) != len(named):
            raise UnexpectedValueError(
                f"some of the tables {', '.join(self.tables)}, each once",
                field=("quality", "tables"),
                found=named,
            )
        return self

    @model_validator(mode="after")
    def _sink_has_topics_of_its_own(self) -> Self:
        if self.kafka_sink is not None:
            self.kafka_sink.check(self.tables, {*self.source.names, f"{TICK_TOPICS}{self.stream}"})
        return self

    @model_validator(mode="after")
    def _topics_are_read(self) -> Self:
        if len(self.source.names) > 1 and not self.logic.reads_several_topics:
            raise UnexpectedValueError(
                f"source.topic, one topic, for stream {self.stream}, which is on Spark's own operators and"
                f" would read only the first of source.topics {self.source.topics}"
            )
        return self

    @model_validator(mode="after")
    def _topics_of_lateness_are_read(self) -> Self:
        if unknown := sorted(set(self.event_time.by_topic) - set(self.source.names)):
            raise UnexpectedValueError(
                f"event_time.by_topic to name topics of source.topics, of which {', '.join(unknown)} is none"
            )
        return self

    @model_validator(mode="after")
    def _lookups_are_known(self) -> Self:
        known = self.logic.lookups
        if known is not None and known != self.lookups.keys():
            names = ", ".join(sorted(known)) or "of which there are none"
            raise UnexpectedValueError(f"lookups to name those of the stream's settings, {names}")
        return self

    @model_validator(mode="after")
    def _clock_is_one(self) -> Self:
        if self.clock == "processing":
            if self.emission != "watermark":
                raise UnexpectedValueError(
                    "no emission with clock: processing, which acts on every event as it arrives;"
                    " leave `emission` out, or set `clock: event`"
                )
            if self.source.tick.mode == "record":
                raise UnexpectedValueError(
                    "source.tick.mode to be auto or wall_clock with clock: processing,"
                    " whose timers follow the wall clock"
                )
        return self

    @property
    def longest_timeout(self) -> timedelta:
        """How far event time has to pass a key's last event before all of its state is gone."""
        lateness = self.event_time.longest_lateness
        # The id of an event is remembered for the allowed lateness, whatever else is forgotten sooner.
        return max(self.logic.longest(), lateness) + lateness + self.timeout.jitter

    @property
    def all_tables(self) -> tuple[str, ...]:
        """The stream's own tables, then those it shares with the other streams."""
        return (*self.tables, *SHARED_TABLES)


class SpecError(ValueError):
    """A stream's YAML cannot be used; the text lists every problem of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def parse_spec(document: YamlDocument, jobs: Path | None = None) -> StreamSpec:
    """Validate one YAML document.

    Args:
        document: The document.
        jobs: The folder of the package `spark_jobs`, for the stream's settings; by default the deployed one.

    Raises:
        SpecError: The document is not a valid spec, or its file is not named after its stream.
    """
    try:
        spec = StreamSpec.model_validate(document.data, context={"jobs": jobs})
    except ValidationError as error:
        stream = document.data.get("stream") if isinstance(document.data, dict) else None
        raise SpecError(problems_of(error, document, StreamSpec, _parts(stream, jobs))) from None
    stem = Path(document.file).stem
    if spec.stream != stem:
        problem = Problem(
            file=document.file,
            line=document.line_of(("stream",)),
            field="stream",
            expected=f"the name of the file, {stem!r}",
            found=repr(spec.stream),
            remedy=f"Rename the file to {spec.stream}.yaml, or set `stream: {stem}`.",
        )
        raise SpecError([problem])
    return spec


def _parts(stream: object, jobs: Path | None) -> dict[str, type[Logic]]:
    try:
        return {"logic": logic_model(stream, jobs)}
    except UnexpectedValueError:  # one of the problems
        return {}


def load_specs(folder: Path | None = None) -> tuple[list[StreamSpec], list[Problem]]:
    """Read every `*.yaml` in a folder. One bad file never affects the others.

    Args:
        folder: Where the files are; `include/streams` when not given.

    Returns:
        The valid specs in order of their names, and the problems of all other files.
    """
    specs: list[StreamSpec] = []
    problems: list[Problem] = []
    root = _existing(folder or Settings().streams)
    for file in sorted(path for path in root.iterdir() if re.search(r"\.ya?ml$", path.name)):
        document = read_yaml(file)
        if isinstance(document, Problem):
            problems.append(document)
            continue
        try:
            specs.append(parse_spec(document))
        except SpecError as error:
            problems.extend(error.problems)
    return specs, problems


def load_spec(stream: str, folder: Path | None = None, jobs: Path | None = None) -> StreamSpec:
    """Read the spec of one stream.

    Args:
        stream: The stream.
        folder: Where its file is; `include/streams` when not given.
        jobs: See `parse_spec`.

    Raises:
        SpecError: Its file is missing or invalid.
    """
    root = folder or Settings().streams
    if not re.fullmatch(NAME_PATTERN, stream):
        # It may come from the form of a run, and is about to become a path.
        remedy = "Name a stream by its YAML's `stream`."
        raise SpecError([Problem(str(root), 0, "(file)", "the name of a stream", repr(stream), remedy)])
    file = _existing(root) / f"{stream}.yaml"
    if not file.exists():
        known = ", ".join(sorted(one.stem for one in root.glob("*.yaml"))) or "none"
        remedy = f"The project's streams are: {known}. `stateward new stream {stream}` adds it."
        raise SpecError([Problem(str(file), 0, "(file)", "the YAML of a stream", "no such file", remedy)])
    return _parsed(read_yaml(file), jobs)


def _existing(root: Path) -> Path:
    if not root.is_dir():
        raise FileNotFoundError(
            f"expected the YAMLs of a project's streams in {root}, found no such folder. Call the command in"
            " the folder of a project, or name it by STATEWARD_PROJECT; `stateward init` lays one out."
        )
    return root


def spec_of(content: bytes, file: Path) -> StreamSpec:
    """Validate what was read of a stream's file.

    Raises:
        SpecError: It is invalid.
    """
    return _parsed(parse_yaml(content, file), None)


def _parsed(document: YamlDocument | Problem, jobs: Path | None) -> StreamSpec:
    if isinstance(document, Problem):
        raise SpecError([document])
    return parse_spec(document, jobs)
