"""Deploy and supervise each stream: `stream_<stream>`."""

from stateward.airflow.dags.streams import stream_dags

globals().update(stream_dags())
