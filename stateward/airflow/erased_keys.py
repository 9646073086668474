"""Erases a key from Airflow's database when a run of the verb `forget` has ended.

The form's value is in the run's conf, and in the audit log with the request that triggered it. A run that has
shown the same key before, such as that of `explain`, has it in its conf, and with *show keys* in its XCom.
Only the scheduler and the API server may write the database, and both call listeners.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stateward.contract.privacy.erasing import ERASED, as_word
from stateward.control.jobs.verb_field import field_parameter
from stateward.control.jobs.verbs import CHANGING_DAG, LOOKING_DAG, VERBS
from stateward.project.settings import Settings

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from sqlalchemy.orm import Session

SECRETS = tuple(
    field_parameter(verb.name, field.name)
    for verb in VERBS.values()
    for field in verb.fields
    if field.is_secret
)
"""The form's parameters whose values are erased."""


def erase_keys(run: DagRun) -> int:
    """Erase the values of a run that has ended; returns the number of changed rows.

    Args:
        run: The run, with its session.
    """
    conf = dict(run.conf or {})
    values = [conf[name] for name in SECRETS if isinstance(conf.get(name), str) and conf[name]]
    if run.dag_id != Settings().dag_id(CHANGING_DAG) or not values:
        return 0
    from sqlalchemy.orm import object_session

    run.conf = {name: value for name, value in conf.items() if name not in SECRETS}
    session = object_session(run)
    if session is None:
        return 1
    return 1 + sum(_erase(session, value) for value in values)


def _erase(session: Session, value: str) -> int:
    """Erase a value from what other runs and requests have left."""
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    changed, dags = 0, [Settings().dag_id(name) for name in (CHANGING_DAG, LOOKING_DAG)]
    for model, column in (
        (DagRun, "conf"),
        (XComModel, "value"),
        (RenderedTaskInstanceFields, "rendered_fields"),
        (Log, "extra"),
    ):
        for row in session.scalars(select(model).where(model.dag_id.in_(dags))):
            found = getattr(row, column)
            if (erased := without(found, value)) != found:
                setattr(row, column, erased)
                changed += 1
    return changed


def without(found: Any, value: str) -> Any:
    """Return what a column has, without a value: JSON, or a text that may be JSON."""
    if isinstance(found, Mapping):
        return {name: without(one, value) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return [without(one, value) for one in found]
    if not isinstance(found, str):
        return found
    if found[:1] in ("{", "[") and isinstance(inner := _parsed(found), dict | list):
        erased = without(inner, value)
        return found if erased == inner else json.dumps(erased)
    return as_word(value).sub(ERASED, found)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
