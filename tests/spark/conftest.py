"""Fixtures `sparks` and `spark`: the session of a driver, in the process of the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from stateward.control.launchers.local_jvm import local_jvm_conf
from stateward.runtime import session as spark_session
from tests.support.spark.launches import FOR_SECONDS, JARS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Modules that take longest. A worker that begins with them does not end long after the other one.
_LONGEST = (
    "test_driver",
    "test_migrate",
    "test_split",
    "test_matrix",
    "test_suites",
    "test_backfill",
    "test_validate",
    "test_neighbours_in_kafka",
    "test_quarantine",
    "test_state_repartition",
    "test_inspect",
    "test_compared_and_proved",
)


class Sparks:
    """The one Spark of a worker. It is started again only for a module that needs other settings of it."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._extra: dict[str, str] = {}

    def session(self, extra: Mapping[str, str] | None = None) -> SparkSession:
        """The session, started with `extra`: settings of a driver that none can change while it runs."""
        wanted = dict(extra or {})
        if self._session is None or wanted != self._extra:
            self.stop()
            conf = {
                # As the control plane starts drivers, so that Spark forks no process for each file.
                **FOR_SECONDS,
                **local_jvm_conf(JARS.parent, "local[2]", {}),
                **spark_session.checkpoint_conf("file:"),
                # The session outlives its queries: nothing may write to the checkpoint of one that has ended.
                "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
                **wanted,
            }
            self._session = spark_session.create_session("tests-spark", 2, conf)
            self._extra = wanted
        return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None


@pytest.fixture(scope="session")
def sparks() -> Iterator[Sparks]:
    """Starts Spark once per worker, and stops it in the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STATEWARD_JARS", str(JARS))
        patch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        made = Sparks()
        yield made
        made.stop()


@pytest.fixture(scope="module")
def spark_settings() -> dict[str, str]:
    """What a module's session is started with beside a driver's settings; a module may say it by its own."""
    return {}


@pytest.fixture(scope="module")
def spark(sparks: Sparks, spark_settings: dict[str, str]) -> Iterator[SparkSession]:
    """The worker's session, as if it were new: a module leaves no query, view or setting to the next."""
    session = sparks.session(spark_settings)
    before = dict(session.conf.getAll)
    yield session
    for query in session.streams.active:
        query.stop()
    for table in session.catalog.listTables():
        if table.isTemporary:
            session.catalog.dropTempView(table.name)
        else:
            session.sql(f"DROP {'VIEW' if table.tableType == 'VIEW' else 'TABLE'} `{table.name}`")
    session.catalog.clearCache()
    for name in (before.keys() ^ session.conf.getAll.keys()) | _changed(session, before):
        if name in before:
            session.conf.set(name, before[name])
        else:
            session.conf.unset(name)


def _changed(session: SparkSession, before: Mapping[str, str]) -> set[str]:
    """Settings that are others than before, without those of Spark itself, such as its name."""
    now = session.conf.getAll
    return {name for name in before.keys() & now.keys() if now[name] != before[name]} - {"spark.app.name"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that take longest; the order of others stays."""

    def place(item: pytest.Item) -> int:
        name = item.path.stem
        return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)

    items.sort(key=place)
