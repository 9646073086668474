"""The versions on the page of compatibility: each part has a range that contains what the lock has."""

from __future__ import annotations

import re

import pytest
from packaging.specifiers import SpecifierSet

from proof.site import versions
from stateward.project.settings import CHECKOUT

# The lock has an override for this one (overrides.txt), which the page says.
OVERRIDDEN = "apache-airflow-providers-apache-spark"


def specifiers(text: str) -> SpecifierSet:
    return SpecifierSet(",".join(re.findall(r"`([<>=!~][^`]+)`", text)))


def test_every_part_has_a_range_and_a_locked_version() -> None:
    rows = [line.strip("| ").split(" | ") for line in versions.versions().splitlines()[2:]]
    assert [row[0] for row in rows] == [
        "Python",
        "Java",
        *versions.PACKAGES.values(),
        *versions.JARS.values(),
    ]
    assert all(len(row) == 3 and all(row) for row in rows)


@pytest.mark.parametrize("package", versions.PACKAGES)
def test_the_locked_version_is_in_a_range(package: str) -> None:
    ranges = list(versions.ranges(package))
    assert ranges
    if package != OVERRIDDEN:
        assert all(specifiers(one).contains(versions.locked(package)) for one in ranges)


def test_the_python_of_the_image_is_in_the_range() -> None:
    [row] = [line for line in versions.versions().splitlines() if line.startswith("| Python")]
    [image] = re.findall(r"(\d+\.\d+\.\d+) \(image\)", row)
    assert specifiers(row).contains(image)


def test_the_overridden_provider_is_the_one_that_the_page_explains() -> None:
    ranges = [specifiers(one) for one in versions.ranges(OVERRIDDEN)]
    inside = all(one.contains(versions.locked(OVERRIDDEN)) for one in ranges)
    assert not inside, "the lock's Spark provider needs no override: correct docs/compatibility.md"


def test_the_version_says_whether_changes_have_none_yet() -> None:
    changes = (CHECKOUT / "CHANGELOG.md").read_text()
    unreleased = changes.split("## [Unreleased]")[1].split("\n## [")[0].strip()
    number = versions.project()["version"]
    assert versions.version() == (f"after {number}" if unreleased else number)
