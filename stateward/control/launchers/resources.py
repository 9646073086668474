"""What an application takes of a cluster, as Spark's settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stateward.contract.names import is_local

_CORES = "spark.executor.cores"
_INSTANCES = "spark.executor.instances"
_MEMORY = "spark.executor.memory"
_MOST_CORES = "spark.cores.max"


@dataclass(frozen=True)
class Executors:
    """The executors of one application.

    Attributes:
        count: How many.
        cores: Cores of each.
        memory: The heap of each, such as `1g`.
    """

    count: int
    cores: int
    memory: str


def executors_conf(master: str, executors: Executors, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that ask a cluster for executors; none for a driver that is its own executor.

    Args:
        master: Where Spark runs.
        executors: What is declared.
        conf: What is set otherwise, which goes before what is declared.
    """
    if is_local(master):
        return {}
    cores = int(conf.get(_CORES, executors.cores))
    # An executor of more cores than the limit would never start.
    cores = min(cores, int(conf.get(_MOST_CORES, cores)))
    count = int(conf.get(_INSTANCES, executors.count))
    found = {_CORES: str(cores), _MEMORY: executors.memory}
    if master.startswith("spark://"):
        # A standalone master knows no number of executors. Without a limit an application takes all cores.
        found[_MOST_CORES] = str(count * cores)
    else:
        found[_INSTANCES] = str(count)
    return {name: conf.get(name, value) for name, value in found.items()}
