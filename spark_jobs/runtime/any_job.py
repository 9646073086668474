"""The kinds of streams: keyed logic of one's own, Spark's own operators, and landing records as they are."""

from __future__ import annotations

from spark_jobs.runtime.landing_job import LandingJob
from spark_jobs.runtime.native_job import NativeJob
from spark_jobs.runtime.stream_job import StreamJob

AnyJob = StreamJob | NativeJob | LandingJob
