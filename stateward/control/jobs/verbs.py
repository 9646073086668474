"""The verbs of state operations: one table for the command line, the DAG's forms and the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateward.control.jobs.verb_field import Field, Value, VerbError

CHANGING_DAG = "state_operations"
LOOKING_DAG = "state_inspection"
"""Two DAGs, so that looking into a state and changing it can be granted apart."""


@dataclass(frozen=True)
class Verb:
    """An operation.

    Attributes:
        name: Its name.
        summary: What it does, in one line.
        fields: What it takes.
        needs_spark: Whether it runs as a Spark job.
        takes_lease: Whether the stream must not run meanwhile.
        has_dry_run: Whether it can report what would happen.
        has_way_back: Whether its DAG makes a savepoint before it, and goes back there if the stream does not
            run with what it has done.
        keeps_release: Whether the stream starts again as it ran; after other verbs it starts with the current
            code and YAML.
        watches_whole: Whether the stream has to be healthy for the whole watch, not only to commit a batch.
        needs_secret: Whether it is given the installation's secret (`STATEWARD_MASK_SECRET`).
    """

    name: str
    summary: str
    fields: tuple[Field, ...] = ()
    needs_spark: bool = False
    takes_lease: bool = False
    has_dry_run: bool = False
    has_way_back: bool = False
    keeps_release: bool = False
    watches_whole: bool = False
    needs_secret: bool = False

    @property
    def only_looks(self) -> bool:
        """Whether it changes nothing; a verb that does has a dry run."""
        return not self.has_dry_run

    @property
    def dag_id(self) -> str:
        """The DAG in whose form it is."""
        return LOOKING_DAG if self.only_looks else CHANGING_DAG


_SAVEPOINT = "A savepoint's id, as `savepoints` lists it"
_SHOW_KEYS = Field("show_keys", "flag", "Show keys and personal values in full", default=False)
_BATCH = Field("batch", "number", "As of this retained batch; the newest without it", minimum=0)

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "savepoint",
            "Copy the drained checkpoint, with all that is needed to go back to it.",
            (Field("reason", "text", "Why, as the list shows it", default=""),),
            takes_lease=True,
            has_dry_run=True,
            keeps_release=True,
        ),
        Verb("savepoints", "List the savepoints; every file is read, and broken ones are shown as such."),
        Verb(
            "verify",
            "Compare a savepoint's files with its manifest; exit code 1 if one differs.",
            (Field("savepoint", "text", f"{_SAVEPOINT}; all without it"),),
        ),
        Verb(
            "prune",
            "Remove old savepoints, operations and checkpoints; never the only good savepoint.",
            (
                Field("keep", "number", "So many of the newest good ones stay", default=3, minimum=1),
                Field("days", "number", "And all that are younger, in days", default=7, minimum=0),
                Field(
                    "operations_days", "number", "Files of operations stay for so many days", 30, minimum=1
                ),
                Field(
                    "generations",
                    "number",
                    "So many checkpoints of before an operation stay, besides the current one",
                    default=1,
                    minimum=0,
                ),
            ),
            has_dry_run=True,
        ),
        Verb(
            "restore",
            "Take checkpoint and tables back to a savepoint; the stream reads again what came after it.",
            (Field("savepoint", "text", f"{_SAVEPOINT}; the newest good one without it"),),
            takes_lease=True,
            has_dry_run=True,
        ),
        Verb(
            "skip",
            "Go on after records that Kafka has lost unread: says which, and keeps every state.",
            takes_lease=True,
            has_dry_run=True,
            keeps_release=True,
        ),
        Verb(
            "inspect",
            "Show how large the state is, where it lies, how it grows, and its timers.",
            (
                _BATCH,
                Field("savepoint", "text", f"{_SAVEPOINT}; the current state without it"),
                _SHOW_KEYS,
            ),
            needs_spark=True,
        ),
        Verb(
            "advise",
            "Propose a number of partitions from the size of the state, the traffic and the cores.",
            needs_spark=True,
        ),
        Verb(
            "explain",
            "Show a key's state, when and why it will end, and what became of it batch by batch.",
            (
                Field("key", "text", "The key", is_required=True, is_personal=True),
                _BATCH,
                Field("savepoint", "text", f"{_SAVEPOINT}; the current state without it"),
                _SHOW_KEYS,
            ),
            needs_spark=True,
        ),
        Verb(
            "export",
            "Write the state to the table state_exports: keys, values and timers, once for each batch.",
            (
                _BATCH,
                Field("savepoint", "text", f"{_SAVEPOINT}; the current state without it"),
                Field("keep", "number", "So many of the newest exports stay; all without it", minimum=1),
            ),
            needs_spark=True,
        ),
        Verb(
            "compare",
            "Compare two states key by key; exit code 1 if they differ.",
            (
                Field("left", "text", f"{_SAVEPOINT}; the current state without it"),
                Field("right", "text", f"{_SAVEPOINT}; the current state without it"),
                Field(
                    "by_key", "flag", "Compare what is kept of each key, not how it is stored", default=False
                ),
                _SHOW_KEYS,
            ),
            needs_spark=True,
        ),
        Verb(
            "repartition",
            "Give the state another number of partitions, on a copy, with proof that nothing else changed.",
            (Field("partitions", "number", "How many; as `advise` proposes without it", minimum=1),),
            needs_spark=True,
            takes_lease=True,
            has_dry_run=True,
            has_way_back=True,
        ),
        Verb(
            "migrate",
            "Move every state to the keys, buckets and schema of the code, on a copy, with proof.",
            (Field("buckets", "number", "How many; as the YAML has it without it", minimum=1), _SHOW_KEYS),
            needs_spark=True,
            takes_lease=True,
            has_dry_run=True,
            has_way_back=True,
        ),
        Verb(
            "seed",
            "Begin a stream that has no checkpoint with states from a table, with proof.",
            (
                Field(
                    "table",
                    "text",
                    "URI of the table, below the data folder or one of STATEWARD_SEED_ROOTS",
                    is_required=True,
                ),
                Field("key", "text", "Its columns that make the key, with commas between", is_required=True),
                Field("format", "text", "delta, parquet or csv", default="delta"),
                Field("separator", "text", "Between the parts of a key of several columns", default=":"),
                _SHOW_KEYS,
            ),
            needs_spark=True,
            takes_lease=True,
            has_dry_run=True,
            needs_secret=True,
        ),
        Verb(
            "split",
            "Give some of the stream's keys to a new stream, which goes on where this one is, with proof.",
            (
                Field(
                    "into",
                    "stream",
                    "The new stream, deployed and never started; `only` in both declarations says which keys",
                    is_required=True,
                ),
            ),
            needs_spark=True,
            takes_lease=True,
            has_dry_run=True,
        ),
        Verb(
            "forget",
            "Remove a key, such as a person, from state, tables, records, savepoints and pages.",
            (
                Field(
                    "key",
                    "text",
                    "The key; it is erased from the request and from Airflow in the end",
                    is_required=True,
                    is_personal=True,
                    is_secret=True,
                ),
            ),
            needs_spark=True,
            takes_lease=True,
            has_dry_run=True,
            needs_secret=True,
        ),
        Verb(
            "upgrade",
            "Start the current code and YAML in place of what runs, and go back if they are not healthy.",
            takes_lease=True,
            has_dry_run=True,
            has_way_back=True,
            watches_whole=True,
        ),
        Verb(
            "verdict",
            "Report whether the current code and YAML may run on the state; exit code 1 if not.",
            (Field("savepoint", "text", f"{_SAVEPOINT}; the current state without it"),),
        ),
    )
}


def verb_of(name: str) -> Verb:
    """The verb of that name.

    Raises:
        VerbError: There is none.
    """
    if name not in VERBS:
        raise VerbError(f"expected one of {', '.join(VERBS)}, found {name!r}")
    return VERBS[name]


def arguments_of(verb: Verb, given: Mapping[str, Any]) -> dict[str, Value]:
    """Check what was given, and fill in what was not.

    Raises:
        VerbError: A field is missing, unknown, or of another type.
    """
    known = {field.name: field for field in verb.fields}
    if unknown := sorted(given.keys() - known.keys()):
        raise VerbError(
            f"{verb.name}: expected {', '.join(known) or 'no fields'}, found {', '.join(unknown)}"
        )
    return {name: field.check(verb.name, given.get(name)) for name, field in known.items()}
