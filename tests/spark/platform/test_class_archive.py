"""The JVM of a session maps the archive of classes that `make setup` has written."""

from __future__ import annotations

from typing import Any

from stateward.control.launchers.local_jvm import class_archive
from tests.spark.conftest import Sparks
from tests.support.spark.launches import JARS


def test_the_jvm_uses_the_archive_of_classes(sparks: Sparks) -> None:
    jvm: Any = sparks.session().sparkContext._jvm
    beans = jvm.java.lang.management.ManagementFactory
    kind = jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    found = beans.getPlatformMXBean(kind)
    # Without a fit it goes on without any archive, also that of the JDK.
    named, used = (found.getVMOption(name).getValue() for name in ("SharedArchiveFile", "UseSharedSpaces"))
    assert (named, used) == (str(class_archive(JARS.parent)), "true")
