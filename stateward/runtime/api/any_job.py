"""The kinds of streams: keyed logic, Spark's operators, and landing of records as they are."""

from __future__ import annotations

from stateward.runtime.api.landing_job import LandingJob
from stateward.runtime.api.native_job import NativeJob
from stateward.runtime.api.stream_job import StreamJob

AnyJob = StreamJob | NativeJob | LandingJob
