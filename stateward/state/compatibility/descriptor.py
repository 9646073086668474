"""The descriptor of a checkpoint's state: the JSON document ``stateward.json`` in its folder.

Spark's own files show little of a keyed stream (a log of chunks, per bucket), and no clock or setting. So the
driver records what the code and the YAML that made the state declare, and the next start is checked against
it (`verdict`). A checkpoint of an older release has no descriptor: then only Spark's own files are compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stateward.contract import storage
from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.keyed.state_log import HEAD_NAME, LOG_NAME
from stateward.runtime.session import STREAM_CONF
from stateward.state.compatibility.findings import Descriptor
from stateward.state.compatibility.shape import event_shape, merged, state_shape
from stateward.state.compatibility.source_text import function_text, plan_operators
from stateward.state.files.spark_files import describe_spark_files

if TYPE_CHECKING:
    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config
    from stateward.runtime.api.key_filter import KeyFilter
    from stateward.runtime.api.stream_job import StreamJob

FORMAT = 1
FILE = "stateward.json"
# The number of buckets of the YAML, where a migration has given the state another one.
_DECLARED = "declared_buckets"

_STORE = "spark.sql.streaming.stateStore"
_OUR_VARIABLES = {
    HEAD_NAME: {"type": "ValueState", "ttl": False},
    LOG_NAME: {"type": "MapState", "ttl": False},
}


def describe(job: AnyJob, config: Config) -> Descriptor:
    """Describe the state that the code writes under a configuration; deterministic."""
    described: Descriptor = {
        "format": FORMAT,
        "stream": config.stream,
        "topics": sorted(config.topics),
        "outputs": {output.table.name: _table(output.table) for output in job.outputs},
        "spark": _spark(job, config),
    }
    # Absent where there is none, so that descriptors of older releases stay equal.
    if job.optional_outputs:
        described["not_written"] = [output.table.name for output in job.optional_outputs]
    if isinstance(job, LandingJob):
        return {**described, "kind": "landing"}
    described |= {
        "key": _key(job),
        "clock": config.clock,
        "emission": config.emission,
        "allowed_lateness_ms": config.allowed_lateness_ms,
        "timeout_jitter_ms": config.timeout_jitter_ms,
        "logic": dict(config.logic),
    }
    if isinstance(job, NativeJob):
        fields = {field.name: field.kind for field in job.fields(config)}
        plans = [job.plan, *(output.plan for output in job.outputs if output.plan)]
        operators = [operator for plan in plans for operator in plan_operators(plan)]
        native = {**described, "kind": "native", "fields": fields, "operators": operators}
        # Absent where all events have one watermark, so that descriptors of older releases stay equal.
        return {**native, "watermarks": _watermarks(job, config)} if job.inputs else native
    return {**described, "kind": "keyed", "state": _state(job, config)}


def _watermarks(job: NativeJob, config: Config) -> dict[str, Any]:
    lateness = {
        one.name: config.lateness_of(topic) for one, topic in zip(job.inputs, config.topics, strict=True)
    }
    return {"policy": config.watermark_policy, "allowed_lateness_ms": lateness}


def _state(job: StreamJob, config: Config) -> dict[str, Any]:
    shapes = {"state": state_shape(job.state_type), "event": event_shape(job.event_type)}
    steps = {
        str(step.of): {"says": step.says, "state": step.state is not None, "event": step.event is not None}
        for step in job.state_steps
    }
    return {
        "version": job.state_version,
        "schemas": {str(job.state_version): shapes},
        "steps": steps,
        "buckets": config.state_buckets,
    }


def _key(job: StreamJob | NativeJob) -> dict[str, Any]:
    described: dict[str, Any] = {"name": job.key.name, "kind": job.key.kind}
    if isinstance(job, NativeJob):
        return described
    steps = {
        str(step.of): {"says": step.says, "key": step.key is not None, "merge": step.merge is not None}
        for step in job.key_steps
    }
    rule = None if job.key_of is None else function_text(job.key_of)
    described |= {"version": job.key_version, "rule": rule, "steps": steps}
    # Absent where the stream has every key, so that descriptors of older releases stay equal.
    return {**described, "only": [_filter(one) for one in job.only]} if job.only else described


def _filter(one: KeyFilter) -> dict[str, Any]:
    return {"says": str(one), "names": function_text(one.names), "rest": one.rest}


def _table(table: Any) -> dict[str, Any]:
    return {
        "columns": {column.name: column.type for column in table.columns},
        "current_by": list(table.current_by),
    }


def _spark(job: AnyJob, config: Config) -> dict[str, Any]:
    conf: Mapping[str, str] = {**STREAM_CONF, **_kind_conf(job), **config.spark_conf}
    spark: dict[str, Any] = {
        "partitions": config.state_partitions,
        "provider": conf[f"{_STORE}.providerClass"],
        "encoding": conf[f"{_STORE}.encodingFormat"],
        "format": int(conf.get(f"{_STORE}.checkpointFormatVersion", "1")),
    }
    if not isinstance(job, NativeJob | LandingJob):
        spark["variables"] = _OUR_VARIABLES
        # For both clocks: Stateward implements processing time on Spark's event time.
        spark["time_mode"] = "EventTime"
    return spark


def _kind_conf(job: AnyJob) -> Mapping[str, str]:
    if not isinstance(job, NativeJob):
        return {}
    from stateward.runtime.query.native_query import NATIVE_CONF

    return NATIVE_CONF


def descriptor_uri(checkpoint_uri: str) -> str:
    """URI of a checkpoint's descriptor."""
    return f"{checkpoint_uri.rstrip('/')}/{FILE}"


def read_descriptor(checkpoint_uri: str) -> Descriptor | None:
    """Read the descriptor of a checkpoint, updated from Spark's own files. Needs no JVM; writes nothing.

    Args:
        checkpoint_uri: A checkpoint's folder, or a copy of one.

    Returns:
        None if no batch is committed, so that there is no state.
    """
    by_spark = describe_spark_files(checkpoint_uri)
    if by_spark is None:
        return None
    written = storage.read_json(descriptor_uri(checkpoint_uri))
    if written is None:
        return {**by_spark, "format": 0}
    spark = {**written.get("spark", {}), **by_spark["spark"]}
    return {**written, "topics": by_spark["topics"], "spark": spark}


def with_buckets_of(config: Config, checkpoint_uri: str) -> Config:
    """Return a configuration with the number of buckets that the checkpoint has.

    A migration may give a state another number than the YAML declares. It is in force until the YAML
    declares another one.

    Args:
        config: A configuration, with the number of the YAML.
        checkpoint_uri: The checkpoint's folder.
    """
    state = (storage.read_json(descriptor_uri(checkpoint_uri)) or {}).get("state", {})
    if state.get(_DECLARED) != config.state_buckets:
        return config
    return replace(config, state_buckets=int(state["buckets"]))


def declared_buckets(found: Descriptor, config: Config) -> int:
    """Return the number of buckets that the YAML declares.

    Args:
        found: The descriptor of the checkpoint.
        config: The configuration by `with_buckets_of`.
    """
    state = found.get("state", {})
    in_force = state.get("buckets") == config.state_buckets
    return int(state.get(_DECLARED, config.state_buckets)) if in_force else config.state_buckets


def with_declared_buckets(document: Descriptor, declared: int) -> Descriptor:
    """Return a descriptor that also has the number that the YAML declares, if it is another one."""
    if "state" not in document or document["state"]["buckets"] == declared:
        return document
    return {**document, "state": {**document["state"], _DECLARED: declared}}


def combined(found: Descriptor | None, now: Descriptor) -> Descriptor:
    """Describe a checkpoint after the code has run on it: it may hold states of older versions too.

    Args:
        found: Descriptor of the checkpoint; the verdict on it allows the start.
        now: Descriptor of the code.
    """
    if found is None:
        return now
    # Spark keeps the settings of the checkpoint, whatever the configuration says.
    document = {**now, "spark": {**now["spark"], **found.get("spark", {})}}
    if "state" not in found or "state" not in now:
        return document
    version = str(now["state"]["version"])
    schemas = {**found["state"]["schemas"], **now["state"]["schemas"]}
    if (before := found["state"]["schemas"].get(version)) is not None:
        shapes = now["state"]["schemas"][version]
        schemas[version] = {part: merged(before[part], shape) for part, shape in shapes.items()}
    combined_state: Descriptor = {**document, "state": {**now["state"], "schemas": schemas}}
    olds, news = found["state"], now["state"]
    if _DECLARED not in olds or olds.get("buckets") != news["buckets"]:
        return combined_state
    return with_declared_buckets(combined_state, olds[_DECLARED])


def write_descriptor(checkpoint_uri: str, document: Descriptor) -> None:
    """Write the descriptor atomically, unless it is unchanged."""
    uri = descriptor_uri(checkpoint_uri)
    ordered: Descriptor = json.loads(json.dumps(document, sort_keys=True))
    if storage.read_json(uri) != ordered:
        storage.write_json(uri, ordered)
