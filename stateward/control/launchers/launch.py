"""Launch a stream's driver: its release, configuration and environment."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from stateward.contract.names import (
    ENV_DRIVER_RUN_ID,
    ENV_DRIVER_STREAM,
    ENV_MASK_SECRET,
    ENV_METRICS_TOKEN,
    TICK_TOPICS,
)
from stateward.contract.process_identity import started_at
from stateward.contract.reading import as_json
from stateward.contract.requests import DriverConfig, LeaseConfig, LookupConfig, TickConfig
from stateward.contract.storage import write_json
from stateward.contract.stream_control import Launch
from stateward.control.launchers.driver_process import (
    DriverCommand,
    LaunchError,
    Prepared,
    log_file,
    start,
    wait_until_noted,
)
from stateward.control.launchers.drivers import cluster_driver_of
from stateward.control.releases import release as releases
from stateward.project.durations import to_ms
from stateward.project.layout import Layout
from stateward.project.project import PACKAGE
from stateward.project.settings import Settings
from stateward.project.spec import SpecError, StreamSpec, load_spec
from stateward.project.spec_logic import LookupSource

# A driver's records are handled in Python and C; what is left to the JVM does not pay for a parallel
# collector's threads. The optimising compiler it does pay for: it costs a fifth of the rate in the first
# minute, and halves the time of a small batch for as long as the driver lives (docs/tuning.md). Out of
# memory it ends: Spark's thread that takes in results would end alone, and the stream stand still.
# A heap begins with a 64th of the machine's memory and never becomes smaller: this one begins small, with
# room for new objects, and a collection that a quiet driver asks for shrinks it to what lives.
_HEAP = "-Xms192m -XX:NewSize=112m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 -XX:-ShrinkHeapInSteps"
DRIVER_CONF = {"spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError {_HEAP}"}

_SUBMITTED_WITHIN_S = 90.0


def resolved_configuration(spec: StreamSpec, settings: Settings, run_id: str) -> dict[str, Any]:
    """Return `control/<stream>.config.json` as docs/architecture.md says; durations in milliseconds."""
    return as_json(driver_config(spec, settings, run_id))


def driver_config(spec: StreamSpec, settings: Settings, run_id: str) -> DriverConfig:
    """Resolve what a driver is started with."""
    layout = Layout.of(settings)
    source = spec.source
    return DriverConfig(
        stream=spec.stream,
        run_id=run_id,
        bootstrap_servers=settings.kafka_bootstrap,
        only_topic=source.topic if source.topic is not None and not source.topics else UNSET,
        several_topics=tuple(source.topics) if source.topics else UNSET,
        topic_partitions=source.topic_partitions,
        create_topics=settings.may_create_topics,
        tick_topic=f"{TICK_TOPICS}{spec.stream}",
        starting_offsets=source.starting_offsets,
        max_records_per_batch=source.max_records_per_batch,
        target_batch_ms=to_ms(source.target_batch_duration),
        trigger_interval_ms=to_ms(spec.trigger_interval),
        allowed_lateness_ms=to_ms(spec.event_time.allowed_lateness),
        lateness_by_topic_ms={topic: to_ms(span) for topic, span in spec.event_time.by_topic.items()},
        watermark_policy=spec.event_time.watermark_policy,
        not_before=source.not_before,
        max_ahead_ms=to_ms(source.max_ahead),
        max_record_bytes=source.max_record_bytes,
        tick=TickConfig(source.tick.mode, to_ms(source.tick.interval)),
        clock=spec.clock,
        emission=spec.emission,
        timeout_jitter_ms=to_ms(spec.timeout.jitter),
        logic=spec.logic.config(),
        state_partitions=spec.state.partitions,
        state_buckets=spec.state.buckets,
        state_cache_dir=_state_cache(spec, settings, layout),
        growth_window_ms=to_ms(spec.health.growth_window),
        # Later than the control plane ends it, where it can.
        leave_deadline_ms=to_ms(spec.health.stop_deadline + 2 * spec.health.kill_grace),
        spark_conf=spec.spark.conf,
        lease=LeaseConfig(layout.lease_uri(spec.stream), to_ms(spec.lease.ttl), to_ms(spec.lease.renew)),
        checkpoint_uri=layout.checkpoint_uri(spec.stream),
        status_uri=layout.status_uri(spec.stream),
        control_uri=layout.control_uri(spec.stream),
        forgotten_uri=layout.forgotten_uri,
        tables={name: layout.table_uri(name) for name in spec.all_tables},
        kafka_sink=spec.kafka_sink.topics if spec.kafka_sink else UNSET,
        lookups={name: _lookup(layout, one) for name, one in spec.lookups.items()},
    )


def _lookup(layout: Layout, source: LookupSource) -> LookupConfig:
    uri = source.table if "://" in source.table else layout.table_uri(source.table)
    return LookupConfig(uri, source.key or "", source.columns)


def _state_cache(spec: StreamSpec, settings: Settings, layout: Layout) -> str | None:
    if spec.state.cache is None and settings.embedded:
        return str(layout.cache_dir(spec.stream))
    # On a machine of another's keeping the driver's own temporary folder is the one that is sure to exist.
    return spec.state.cache


def driver_environment(
    inherited: Mapping[str, str], settings: Settings, stream: str, run_id: str, code: Path | None = None
) -> dict[str, str]:
    """Return a driver's environment.

    Args:
        inherited: The environment of whoever launches it. What Airflow has put there is left
            out: connections and keys are not the driver's, and a task's context is gone long
            before the driver is. Nor are the token of the metrics and the secret of masked values.
        settings: Passed on as `STATEWARD_*`.
        stream: The stream's name, a mark on every process of the driver.
        run_id: This launch, a mark too.
        code: The folder of the packages `spark_jobs` and `stateward`; that of the settings without it.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if "AIRFLOW" not in name.upper() and name not in (ENV_METRICS_TOKEN, ENV_MASK_SECRET)
    }
    binaries = str(Path(sys.executable).parent)
    return {
        **kept,
        **settings.environment(),
        "PATH": os.pathsep.join([binaries, inherited.get("PATH", os.defpath)]),
        "PYTHONPATH": str(code or settings.jobs.parent),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": spark_home(),
        ENV_DRIVER_STREAM: stream,
        ENV_DRIVER_RUN_ID: run_id,
    }


def spark_home() -> str:
    """Return the folder of this environment's Spark.

    Raises:
        LaunchError: It has none.
    """
    # The Spark that the driver's Python was installed with; another one found by chance on the
    # machine fails in ways that are hard to read. find_spec does not import it.
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise LaunchError(f"expected pyspark beside {sys.executable}, found none. Run `make setup`.")
    return str(Path(found.origin).parent)


def spark_jars(settings: Settings) -> str:
    """Return the paths of Spark's JARs, as `spark-submit` takes them.

    Raises:
        LaunchError: There are none.
    """
    folder = settings.jars / "spark"
    jars = sorted(str(jar) for jar in folder.glob("*.jar"))
    if not jars:
        raise LaunchError(f"expected Spark's JARs in {folder}, found none. Run `stateward jars`.")
    return ",".join(jars)


def entry_point(stream: str, code: Path) -> Path:
    """Return the script that runs a stream's driver in a release.

    Raises:
        LaunchError: The release does not have the stream.
    """
    folder = code / PACKAGE / stream
    # Every stream of a release before 0.2 has an entry point of its own.
    own, declaration = folder / "job.py", folder / "declaration.py"
    if own.is_file():
        return own
    if not declaration.is_file():
        raise LaunchError(f"stream {stream}: expected its declaration at {declaration}, found no such file.")
    return code / "stateward" / "driver.py"


@dataclass
class SparkLauncher:
    """Launches a stream's driver with `spark-submit`; see `executor.Launcher`.

    Attributes:
        build_command: Takes the stream, the settings, the run id and the folder of the code.
        with_connections: Adds to the settings what connections say. Called for a launch only: a stop needs
            none.
    """

    spec: StreamSpec
    settings: Settings
    build_command: Callable[[StreamSpec, Settings, str, Path], DriverCommand]
    with_connections: Callable[[Settings], Settings] = lambda settings: settings
    _command: DriverCommand | None = None

    def prepare(self, run_id: str, now: datetime, release: str | None) -> Prepared:
        """Build the command, write the driver's configuration, and name its log.

        Args:
            run_id: The launch.
            now: The time, aware.
            release: What to launch; the current code and YAML without it.

        Raises:
            LaunchError: The connection, JARs, job or release are missing; nothing has been changed then.
        """
        stream = self.spec.stream
        settings = self.with_connections(self.settings)
        kept, spec = self._release(release)
        self._command = self.build_command(spec, settings, run_id, kept.code)
        layout = Layout.of(settings)
        write_json(layout.config_uri(stream), resolved_configuration(spec, settings, run_id))
        return Prepared(log_file(layout, stream, run_id, now), kept.id, self._command.application)

    def _release(self, wanted: str | None) -> tuple[releases.Release, StreamSpec]:
        stream = self.spec.stream
        try:
            kept = self._again(wanted) if wanted else releases.keep(stream, self.settings)
            releases.store(stream, kept, self.settings)
            # What is kept, and not what was read before: the file may have been edited since.
            return kept, load_spec(stream, kept.streams, kept.code / PACKAGE)
        except (OSError, releases.ReleaseError, SpecError) as error:
            raise LaunchError(f"stream {stream}: its release cannot be started: {error}") from error

    def _again(self, wanted: str) -> releases.Release:
        stream = self.spec.stream
        try:
            return releases.find(stream, wanted, self.settings)
        except releases.ReleaseError:
            # Started by an earlier version, perhaps, which stored none; here the same may be deployed.
            kept = releases.keep(stream, self.settings)
            if kept.id != wanted:
                raise
            return kept

    def start(self, launch: Launch) -> Launch:
        """Start what was prepared, and return its launch with its process, or its application's id.

        Raises:
            LaunchError: It could not be started, or `prepare` has not been called.
        """
        if self._command is None:
            raise LaunchError(f"stream {self.spec.stream}: launch {launch.run_id} was not prepared")
        pid = start(self._command, Path(launch.log))
        if launch.application is None:
            return replace(launch, pid=pid, pid_started=started_at(pid))
        # In cluster mode it ends when the cluster has the application; the next look tells if it has.
        wait_until_noted(Path(launch.log), _SUBMITTED_WITHIN_S)
        driver = cluster_driver_of(
            Layout.of(self.settings).home, self.spec.stream, launch, launch.application
        )
        return replace(launch, application=driver.application())
