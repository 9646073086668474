"""The driver of a stream: connects pure stream logic to Spark, Kafka and Delta."""

from stateward.runtime.import_path import drop_archives

# Before PySpark is imported, in the driver and in every worker process.
drop_archives()
