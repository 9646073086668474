"""No DAG: fails to import, as an Airflow import error, while a YAML in include/streams is invalid.

An import error hides every DAG of its file, so the complaint has a file of its own.
"""

from stateward.project.settings import Settings
from stateward.project.spec import SpecError, load_specs

_, problems = load_specs(Settings().streams)
if problems:
    raise SpecError(problems)
