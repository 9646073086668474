"""The page of a run of `state_<stream>`: what was advised, with its cost and saving, and what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from stateward.pages.link import Link
from stateward.rendering.environment import page_environment


@dataclass(frozen=True)
class ProposalView:
    """One proposal as the page shows it: each text is a sentence."""

    title: str
    held: str
    reasons: Sequence[str]
    cost: str
    savings: Sequence[str]


@dataclass(frozen=True)
class StepView:
    """One task: `level` is `good`, `calm` for a skipped one, or `bad`."""

    name: str
    level: str
    state: str
    text: str
    links: Sequence[Link] = ()


@dataclass(frozen=True)
class CareView:
    """One run.

    Attributes:
        stream: The stream.
        at: When the run was reported, aware.
        policy: The policy of its YAML.
        headline: The decision, one sentence.
        proposals: All proposals; the first is the one that was decided about.
        steps: The tasks, in order.
    """

    stream: str
    at: datetime
    policy: str
    headline: str
    proposals: Sequence[ProposalView]
    steps: Sequence[StepView]


def render(view: CareView) -> str:
    """Render the page, HTML."""
    return page_environment(__package__).get_template("state_care.html.j2").render(view=view)
