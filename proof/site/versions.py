"""Which versions of other software the wheel allows, and which the lock has."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from packaging.requirements import Requirement

from stateward.platform.jars.java import SUPPORTED
from stateward.project.settings import CHECKOUT

# By package, in the order of the page.
PACKAGES = {
    "apache-airflow": "Airflow",
    "apache-airflow-providers-apache-spark": "its Spark provider",
    "apache-airflow-providers-standard": "its standard provider",
    "pyspark": "Spark (PySpark)",
    "deltalake": "Delta Lake from Python (deltalake)",
    "confluent-kafka": "Kafka client (confluent-kafka)",
    "great-expectations": "Great Expectations",
}
# By artifact. The wheel has the list of the lock, and `stateward jars` fetches that.
JARS = {
    "io.delta:delta-spark_4.2_2.13": "Delta Lake in Spark (JARs)",
    "org.apache.kafka:kafka_2.13": "Kafka broker of `stateward up` (JARs)",
}


def project() -> dict[str, Any]:
    """The section `project` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(found["project"])


def version() -> str:
    """The version that the pages are of: `0.2.0`, or `after 0.2.0` with what has no version yet."""
    changes = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = re.search(r"^## \[Unreleased\]\n+(?=###)", changes, re.MULTILINE)
    return f"{'after ' if unreleased else ''}{project()['version']}"


def versions() -> str:
    """A table of ranges and locked versions."""
    lines = ["| | the wheel allows | demo, CI and image |", "|---|---|---|"]
    image = (CHECKOUT / "Dockerfile").read_text(encoding="utf-8")
    [python], [java] = (
        re.findall(r"^FROM python:([\d.]+)", image, re.MULTILINE),
        re.findall(r"openjdk-(\d+)", image),
    )
    lines.append(f"| Python | {_range(project()['requires-python'])} | {python} (image) |")
    lines.append(f"| Java | {' or '.join(map(str, SUPPORTED))} | {java} (image) |")
    for name, shown in PACKAGES.items():
        lines.append(f"| {shown} | {'; '.join(ranges(name))} | {locked(name)} |")
    for artifact, shown in JARS.items():
        lines.append(f"| {shown} | the locked version | {locked_jar(artifact)} |")
    return "\n".join(lines)


def ranges(package: str) -> Iterator[str]:
    """What the wheel allows of a package, by extra."""
    found = project()
    for extra, lines in {"": found["dependencies"], **found["optional-dependencies"]}.items():
        for one in map(Requirement, lines):
            if one.name == package:
                yield _range(str(one.specifier)) + (f" (extra `{extra}`)" if extra else "")


def locked(package: str) -> str:
    """The version of a package in requirements.txt."""
    text = (CHECKOUT / "requirements.txt").read_text(encoding="utf-8")
    [found] = re.findall(rf"^{re.escape(package)}(?:\[[\w,-]+\])?==(\S+)", text, re.MULTILINE)
    return str(found)


def locked_jar(artifact: str) -> str:
    """The version of a JAR in jars.lock."""
    text = (CHECKOUT / "jars.lock").read_text(encoding="utf-8")
    [found] = re.findall(rf'jar = "{re.escape(artifact)}:([^"]+)"', text)
    return str(found)


def _range(specifier: str) -> str:
    return ", ".join(f"`{one}`" for one in sorted(specifier.split(","), reverse=True))
