"""Reads Spark's own files in a checkpoint, without Spark: settings, operators, schemas. Writes nothing."""

from __future__ import annotations

import json
import re
from typing import Any

from stateward.contract import storage
from stateward.contract.names import TICK_TOPICS
from stateward.runtime.checkpoint.batch_plan import from_json
from stateward.runtime.checkpoint.checkpoint import Checkpoint

_STORE = "spark.sql.streaming.stateStore"
_TWS = "transformWithState"
_KEYED = "transformWithStateInPySparkExec"
# Start of a key's or value's struct in a state schema file.
_STRUCT = re.compile(rb'\{"type":"struct"')
_json = json.JSONDecoder()


def describe_spark_files(checkpoint_uri: str) -> dict[str, Any] | None:
    """Describe a checkpoint from its offsets and its state's metadata.

    Returns:
        Parts of a descriptor (`descriptor`): ``kind``, ``topics`` and ``spark``. None if no batch is
        committed: a driver that dies in the first batch leaves a plan and perhaps some metadata, but no
        state.
    """
    uri = checkpoint_uri.rstrip("/")
    checkpoint = Checkpoint(uri)
    if checkpoint.last_committed() < 0:
        return None
    text = storage.read_text(f"{uri}/offsets/{checkpoint.last_planned()}")
    if text is None:
        return None
    _, metadata, *sources = text.splitlines()
    conf = json.loads(metadata).get("conf", {})
    operators = [_operator(f"{uri}/state/{number}") for number in operator_numbers(uri)]
    names = [operator["name"] for operator in operators]
    kind = "landing" if not names else "keyed" if _KEYED in names else "native"
    spark = {
        "partitions": int(conf["spark.sql.shuffle.partitions"]) if conf else None,
        "provider": conf.get(f"{_STORE}.providerClass"),
        "encoding": conf.get(f"{_STORE}.encodingFormat"),
        "format": _format(uri),
        "operators": operators,
    }
    # In plans before version 2 ticks were records of a topic.
    topics = sorted(topic for topic in from_json(json.loads(sources[0])) if not topic.startswith(TICK_TOPICS))
    return {
        "kind": kind,
        "topics": topics,
        "spark": {name: value for name, value in spark.items() if value is not None},
    }


def operator_numbers(uri: str) -> list[int]:
    """The ids of the operators that keep state, sorted."""
    return sorted(int(name) for name in storage.list_names(f"{uri}/state") if name.isdigit())


def operator_metadata(uri: str) -> dict[str, Any]:
    """Spark's metadata of one operator, from either version of the file; empty if there is none."""
    text = _newest(f"{uri}/_metadata/v2") or storage.read_text(f"{uri}/_metadata/metadata")
    return json.loads(text.splitlines()[1]) if text else {}


def _operator(uri: str) -> dict[str, Any]:
    """Name, time mode, variables and schemas of one operator."""
    document = operator_metadata(uri)
    stores = document.get("stateStoreInfo", [])
    found: dict[str, Any] = {
        "name": document.get("operatorInfo", {}).get("operatorName", "unknown"),
        "stores": [store["storeName"] for store in stores],
        "schemas": _schemas(uri),
    }
    properties = json.loads(document.get("operatorPropertiesJson") or "{}")
    if found["name"].startswith(_TWS):
        found["time_mode"] = properties.get("timeMode")
        found["variables"] = {
            one["stateName"]: {"type": one["stateVariableType"], "ttl": bool(one["ttlEnabled"])}
            for one in properties.get("stateVariables", [])
            if not one["stateName"].startswith("$")
        }
    return found


def _newest(uri: str) -> str | None:
    versions = [int(name) for name in storage.list_names(uri) if name.isdigit()]
    return storage.read_text(f"{uri}/{max(versions)}") if versions else None


def _format(uri: str) -> int | None:
    """The version of the commit log, which is that of the state store's checkpoint format."""
    last = Checkpoint(uri).last_committed()
    text = storage.read_text(f"{uri}/commits/{last}") if last >= 0 else None
    return int(text.splitlines()[0].removeprefix("v")) if text else None


def _schemas(uri: str) -> list[Any]:
    """The structs in an operator's newest schema files: a key and a value for each variable or store.

    The structs are JSON, embedded in Java's binary format.
    """
    filesystem, path = storage.filesystem_at(uri)
    files = sorted(filesystem.glob(f"{path}/0/_metadata/schema")) + sorted(
        filesystem.glob(f"{path}/0/*/_metadata/schema")
    )
    if newer := sorted(filesystem.glob(f"{path}/_stateSchema/*/*"), key=_schema_number):
        files = newer[-1:]
    structs = []
    for file in files:
        content = filesystem.cat_file(file)
        structs += _structs(content)
    return structs


def _schema_number(path: str) -> int:
    number = path.rpartition("/")[2].partition("_")[0]
    return int(number) if number.isdigit() else -1


def _structs(content: bytes) -> list[Any]:
    found, position = [], 0
    while match := _STRUCT.search(content, position):
        text = content[match.start() :].decode("utf-8", errors="replace")
        struct, length = _json.raw_decode(text)
        found.append([f"{field['name']} {_type(field['type'])}" for field in struct["fields"]])
        position = match.start() + len(text[:length].encode())
    return found


def _type(kind: Any) -> str:
    """A Spark type as DDL."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        inner = ", ".join(f"{field['name']}: {_type(field['type'])}" for field in kind["fields"])
        return f"struct<{inner}>"
    if kind["type"] == "array":
        return f"array<{_type(kind['elementType'])}>"
    return f"map<{_type(kind['keyType'])}, {_type(kind['valueType'])}>"
