"""The patterns that are looked for, as data. Pure.

Another pattern is another entry: it is followed beside the others from the next start on, and
docs/streams/intrusion_patterns.md is drawn from it. A pattern whose steps change gets a new name, so that
what was found of the old one is not taken for steps of the new one.
"""

from spark_jobs.intrusion_patterns.model import Pattern

_MINUTE_MS = 60_000

PATTERNS = (
    Pattern(
        "recon_to_escalation",
        steps=("recon_scan", "auth_failure", "privilege_escalation"),
        horizon_ms=20 * _MINUTE_MS,
        remedy="Isolate the host whose privileges were raised, then block the source.",
    ),
)
