"""The class of each verb; `stateward.control.jobs.verbs` declares what a verb takes."""

from __future__ import annotations

from importlib import import_module

from stateward.state.operation.verb import Verb

# By name, so that an operation imports its own verb only: most need Spark, and the others do not pay for it.
CLASSES = {
    "savepoint": "savepoint.SavepointVerb",
    "savepoints": "verify.SavepointsVerb",
    "verify": "verify.VerifyVerb",
    "prune": "prune.PruneVerb",
    "restore": "restore.RestoreVerb",
    "skip": "skip.SkipVerb",
    "inspect": "inspect.InspectVerb",
    "advise": "advise.AdviseVerb",
    "explain": "explain.ExplainVerb",
    "export": "export.ExportVerb",
    "compare": "compare.CompareVerb",
    "repartition": "repartition.RepartitionVerb",
    "migrate": "migrate.MigrateVerb",
    "seed": "seed.SeedVerb",
    "split": "split.SplitVerb",
    "forget": "stateward.state.forget.forget_verb.ForgetVerb",
    "upgrade": "verdict.UpgradeVerb",
    "verdict": "verdict.VerdictVerb",
}


def verb_class(name: str) -> type[Verb]:
    """Import the class of a verb."""
    module, _, name_of_class = CLASSES[name].rpartition(".")
    # A verb with a package of its own has its whole name.
    whole = module if "." in module else f"{__package__}.{module}"
    found: type[Verb] = getattr(import_module(whole), name_of_class)
    return found
