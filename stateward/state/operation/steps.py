"""Progress of an operation, as its verbs report it; a report raises when the lease is lost."""

from stateward.runtime.telemetry.batch_steps import READY, Report

__all__ = ["READY", "Report"]
