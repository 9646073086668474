"""The section `logic` of each stream's YAML: the settings of what the stream computes.

A stream with a model here is told of a wrong or unknown setting before it is deployed. Any other stream may
have settings of its own: text, numbers, true or false, and durations.
"""

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from stateward.project import durations
from stateward.project.spec_fields import Count, Duration, Part
from stateward.project.unexpected_value import UnexpectedValueError


class Logic(Part):
    """The settings of one stream's logic.

    Attributes:
        reads_several_topics: Whether the stream may read more than one.
    """

    reads_several_topics: ClassVar[bool] = False

    def config(self) -> dict[str, Any]:
        """Return the settings as the driver takes them: a duration `gap` becomes `gap_ms`, an integer."""
        return {
            f"{name}_ms" if isinstance(value, timedelta) else name: (
                durations.to_ms(value) if isinstance(value, timedelta) else value
            )
            for name, value in self
        }

    def longest(self) -> timedelta:
        """Return the longest of the durations, zero if there is none."""
        spans = [value for _, value in self if isinstance(value, timedelta)]
        return max(spans, default=timedelta(0))


class FreeLogic(Logic):
    """Settings of a stream that has no model of its own; the bound is one that every keyed stream has."""

    # Only the driver knows what kind of stream it is, and refuses what it would not read.
    reads_several_topics: ClassVar[bool] = True

    max_held_events: Count = 10_000

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, timedelta | bool | int | float | str]

    @model_validator(mode="before")
    @classmethod
    def _read_durations(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: durations.parse_duration(item) if durations.is_duration(item) else item
            for name, item in value.items()
        }


class ActionCountsLogic(Logic):
    """A count ends `idle` after the user's last action."""

    idle: Duration = timedelta(minutes=5)
    max_held_events: Count = 10_000


class UserSessionsLogic(Logic):
    """Sessions end after `gap`, or what an event asks for, up to `max_gap`."""

    gap: Duration = timedelta(minutes=30)
    max_gap: Duration = timedelta(hours=24)
    max_held_events: Count = 10_000

    @model_validator(mode="after")
    def _gap_is_allowed(self) -> Self:
        if self.gap > self.max_gap:
            raise UnexpectedValueError(
                f"logic.gap to be at most logic.max_gap ({durations.format_duration(self.max_gap)})"
            )
        return self


class FraudWatchLogic(Logic):
    """See docs/streams/fraud_watch.md."""

    velocity_count: Annotated[int, Field(ge=1, le=1000)] = 5
    velocity_amount: Annotated[float, Field(ge=0.000001, le=1e12)] = 5000.0
    velocity_window: Duration = timedelta(minutes=10)
    authentication_window: Duration = timedelta(minutes=2)
    idle: Duration = timedelta(minutes=30)
    review: Duration = timedelta(hours=24)
    safety: Duration = timedelta(hours=25)
    max_held_events: Count = 10_000

    @model_validator(mode="after")
    def _safety_comes_last(self) -> Self:
        longest = max(self.idle, self.review)
        if self.safety <= longest:
            raise UnexpectedValueError(
                "logic.safety to be longer than logic.idle and logic.review"
                f" ({durations.format_duration(longest)}), so that it removes only what they have missed"
            )
        return self

    @model_validator(mode="after")
    def _windows_fit(self) -> Self:
        if max(self.velocity_window, self.authentication_window) > self.idle:
            raise UnexpectedValueError(
                "logic.velocity_window and logic.authentication_window to be at most logic.idle"
                f" ({durations.format_duration(self.idle)}), after which an account is forgotten"
            )
        return self


class DeviceLifecycleLogic(Logic):
    """See docs/streams/device_lifecycle.md."""

    offline_after: Duration = timedelta(minutes=60)
    forget_after: Duration = timedelta(days=30)
    max_held_events: Count = 10_000

    def longest(self) -> timedelta:
        """Return how long after its last reading a device is forgotten: one timeout follows the other."""
        return self.offline_after + self.forget_after


class IntrusionPatternsLogic(Logic):
    """`horizon` replaces that of every pattern; see docs/streams/intrusion_patterns.md."""

    horizon: Duration = timedelta(minutes=20)
    max_held_events: Count = 10_000


class RawEventsLogic(Logic):
    """Records are kept as they are: there is nothing to set. See docs/streams/raw_events.md."""

    reads_several_topics: ClassVar[bool] = True


class EventWindowsLogic(Logic):
    """Windows of `size`; a sliding one starts every `slide`. See docs/streams/event_windows.md."""

    size: Duration = timedelta(minutes=5)
    slide: Duration = timedelta(minutes=1)

    @model_validator(mode="after")
    def _windows_leave_no_gap(self) -> Self:
        if self.slide > self.size:
            raise UnexpectedValueError(
                f"logic.slide to be at most logic.size ({durations.format_duration(self.size)}),"
                " so that no event is between two windows"
            )
        return self


class PaymentAuthJoinLogic(Logic):
    """How far an authentication may be from its payment; see docs/streams/payment_auth_join.md."""

    before: Duration = timedelta(minutes=2)
    after: Duration = timedelta(minutes=2)


class UserActivityLogic(Logic):
    """See docs/streams/user_activity.md."""

    session_timeout: Duration = timedelta(hours=1)
    counter_idle: Duration = timedelta(days=30)
    max_held_events: Count = 10_000

    @model_validator(mode="after")
    def _count_outlives_a_session(self) -> Self:
        if self.counter_idle <= self.session_timeout:
            raise UnexpectedValueError(
                "logic.counter_idle to be longer than logic.session_timeout"
                f" ({durations.format_duration(self.session_timeout)}), so that a session is counted"
                " before its user is forgotten"
            )
        return self


MODELS: dict[str, type[Logic]] = {
    "action_counts": ActionCountsLogic,
    "device_lifecycle": DeviceLifecycleLogic,
    "event_windows": EventWindowsLogic,
    "fraud_watch": FraudWatchLogic,
    "intrusion_patterns": IntrusionPatternsLogic,
    "payment_auth_join": PaymentAuthJoinLogic,
    "raw_events": RawEventsLogic,
    "user_activity": UserActivityLogic,
    "user_sessions": UserSessionsLogic,
}


def logic_model(stream: object) -> type[Logic]:
    """Return the model of a stream's settings."""
    return MODELS.get(stream, FreeLogic) if isinstance(stream, str) else FreeLogic
