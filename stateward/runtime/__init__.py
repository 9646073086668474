"""The one seam between pure stream logic and the engine."""

from stateward.runtime.driver.import_path import drop_archives

# Before anything of Spark is imported, in the driver and in every process of a worker.
drop_archives()
