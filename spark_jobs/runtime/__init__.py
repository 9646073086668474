"""The one seam between pure stream logic and the engine."""

from spark_jobs.runtime.archives import drop_archives

# Before anything of Spark is imported, in the driver and in every process of a worker.
drop_archives()
