"""Whether the Airflow connections of a project exist.

They are looked up in the environment and in Airflow's metadata database without importing Airflow, which
takes longer than everything else that is checked.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stateward.project.airflow_options import (
    KAFKA_CONNECTION,
    SPARK_CONNECTION,
    connection_variable,
    create_connection,
    metadata_database,
    option,
    secrets_backend,
    sqlite_address,
)
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import StreamSpec
from stateward.project.spec_problems import Problem, YamlDocument, read_yaml

# Each says that a certain Airflow is meant.
_OF_AN_AIRFLOW = ("AIRFLOW_HOME", "AIRFLOW_CONFIG", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
# How long a server that does not answer is waited for, seconds.
_TIMEOUT_S = 2


class NotCheckedError(RuntimeError):
    """Not all places can be asked for connections; the text says why, and what to do."""

    def __init__(self, conn_ids: set[str], because: str) -> None:
        super().__init__(f"Not checked: the Airflow connection {', '.join(sorted(conn_ids))}. {because}")


class Checked(NamedTuple):
    """What was found.

    Attributes:
        problems: A sentence for each connection that does not exist.
        notes: Which connections were not checked, and why.
    """

    problems: list[str]
    notes: list[str]


def check_connections(settings: Settings, specs: Sequence[StreamSpec]) -> Checked:
    """Look up the Spark connections of streams, and the Kafka connection where a setting names one."""
    spark: dict[str, list[StreamSpec]] = {}
    for spec in specs:
        spark.setdefault(spec.spark.conn_id, []).append(spec)
    kafka = {settings.kafka_conn_id} if settings.names_kafka_connection else set[str]()
    embedded = _embedded_database(settings)
    # `stateward up` brings this one along.
    wanted = {*spark, *kafka} - ({settings.spark_conn_id} if embedded else set())
    absent = {conn_id for conn_id in wanted if not os.environ.get(connection_variable(conn_id))}
    try:
        absent, found = _look_up(absent, embedded)
    except NotCheckedError as error:
        return Checked([], [str(error)])
    problems = [
        _missing_spark(one, spark[one], settings.streams, found) for one in sorted(absent & spark.keys())
    ]
    problems += [
        f"setting kafka_conn_id: expected the Airflow connection {one!r}, found {found}."
        f" {create_connection(one, KAFKA_CONNECTION)}"
        for one in absent & kafka
    ]
    return Checked(problems, [])


def _embedded_database(settings: Settings) -> Path | None:
    """The database of the Airflow of `stateward up`, unless the environment names another one."""
    file = Layout.of(settings).airflow_home / "airflow.db"
    is_other = any(os.environ.get(name) for name in _OF_AN_AIRFLOW)
    return file if file.exists() and not is_other else None


def _look_up(conn_ids: set[str], embedded: Path | None) -> tuple[set[str], str]:
    """Return which connections are in no place, and where they were looked for.

    Raises:
        NotCheckedError: The database or another place cannot be asked.
    """
    if not conn_ids:
        return set(), ""
    address = sqlite_address(embedded) if embedded else metadata_database()
    if address is None:
        because = "The address of Airflow's database comes from a command or a secret."
        raise NotCheckedError(conn_ids, f"{because} Set AIRFLOW__DATABASE__SQL_ALCHEMY_CONN.")
    kept, database = _kept_in(address, conn_ids)
    absent = conn_ids - kept
    if absent and not embedded and (backend := secrets_backend()):
        because = f"The secrets backend {backend} may have it, and is slow to ask."
        raise NotCheckedError(absent, f"{because} Call `airflow connections get {min(absent)}`.")
    return absent, f"none in the environment of this command or in {database}"


def _kept_in(address: str, conn_ids: set[str]) -> tuple[set[str], str]:
    """Return which of the connections a metadata database has, and its address without a password."""
    try:
        from sqlalchemy import ColumnClause, column, create_engine, make_url, select, table
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        raise NotCheckedError(conn_ids, "Airflow is not installed beside this command.") from None
    try:
        url = make_url(address)
        shown = url.render_as_string(hide_password=True)
        is_file = url.get_backend_name() == "sqlite"
        if is_file and not Path(url.database or "").is_file():
            because = f"There is no database of Airflow at {shown}."
            raise NotCheckedError(
                conn_ids, f"{because} Set AIRFLOW_HOME to the folder of yours, unless you use `stateward up`."
            )
        conn_id: ColumnClause[str] = column("conn_id")
        kept = select(conn_id).select_from(
            table("connection", conn_id, schema=option("database", "sql_alchemy_schema"))
        )
        engine = create_engine(url, connect_args={"timeout" if is_file else "connect_timeout": _TIMEOUT_S})
        with engine.connect() as connection:
            return set(connection.scalars(kept.where(conn_id.in_(sorted(conn_ids))))), shown
    except (SQLAlchemyError, ImportError) as error:
        # Its text may have the address with the password.
        because = f"Airflow's database cannot be asked ({type(error).__name__})."
        raise NotCheckedError(conn_ids, f"{because} Call `airflow db check`.") from error


def _missing_spark(conn_id: str, specs: Sequence[StreamSpec], folder: Path, found: str) -> str:
    """The problem at the first stream that needs it, with the places of the others."""
    (file, line), *others = (_place(folder, spec.stream) for spec in specs)
    also = ", ".join(f"{Path(file).name}:{line}" if line else Path(file).name for file, line in others)
    expected = f"the Airflow connection {conn_id!r}" + ("" if line else ", which is the default")
    remedy = create_connection(conn_id, SPARK_CONNECTION) + (f" {also} name it too." if also else "")
    return str(Problem(file, line, "spark.conn_id", expected, found, remedy))


def _place(folder: Path, stream: str) -> tuple[str, int]:
    """The YAML of a stream, and the line on which it names its connection; 0 if it names none."""
    file = next(one for one in folder.iterdir() if one.stem == stream and one.suffix in (".yaml", ".yml"))
    document = read_yaml(file)
    lines = document.lines if isinstance(document, YamlDocument) else {}
    return str(file), lines.get(("spark", "conn_id"), 0)
