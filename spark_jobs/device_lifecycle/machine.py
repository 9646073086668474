"""The machine that follows the table of `transitions` for one device. Pure.

It finds out which trigger a reading or a timeout is, keeps the totals, and writes the rows.

One rule holds for every duration: *within* means less than it. A reading an hour after another finds its
device offline already. With the offline timeout as ten columns, ``r`` running and ``i`` idle::

    readings   r   r  i   r             r
    runtime        4  3   0             0     from each running reading to the next one within the timeout
    alerts                          O   B     offline ten after the heartbeat, back online after 14 of silence

A reading that comes after a newer one, as eager emission has them, is counted, and its error code is kept;
it changes neither mode, last heartbeat nor runtime.
"""

from dataclasses import dataclass

from spark_jobs.device_lifecycle.model import (
    ABSENT,
    BY_TIMEOUT,
    FINAL,
    FORGOTTEN,
    MAX_ERROR_CODES,
    OFFLINE,
    RUNNING,
    STATUSES,
    DeviceAlert,
    DeviceReading,
    DeviceSettings,
    DeviceState,
    DeviceStatus,
)
from spark_jobs.device_lifecycle.transitions import (
    FORGET_AFTER,
    OFFLINE_AFTER,
    OLDER,
    OTHER,
    transition,
)
from stateward.runtime.api.key_logic import Rows, row_id


@dataclass(frozen=True)
class DeviceMachine:
    """`stateward.runtime.api.key_logic.KeyLogic` of the stream."""

    settings: DeviceSettings

    def apply(
        self, key: str, state: DeviceState | None, event: DeviceReading
    ) -> tuple[DeviceState | None, Rows]:
        """Follow the table for one reading: one status row, and before it the alert, if there is one."""
        trigger = _trigger(state, event)
        row = transition(state.mode if state else ABSENT, trigger)
        if state is None:
            after = _begun(row.to, event)
        elif trigger == OLDER:
            after = _counted(state, event)
        else:
            after = self._moved(state, row.to, event)
        status = _status(key, after)
        kept = None if row.to in FINAL else after
        if state is None or row.alert is None:
            return kept, (status,)
        return kept, (_alert(key, state, row.alert, at_ms=event.event_ms, event=event), status)

    def deadline(self, state: DeviceState) -> int:
        """When the device goes offline, or is forgotten."""
        if state.mode == OFFLINE:
            return state.changed_ms + self.settings.forget_after_ms
        return state.last_ms + self.settings.offline_after_ms

    def expire(self, key: str, state: DeviceState, at_ms: int) -> tuple[DeviceState | None, Rows]:
        """Follow the table for the timeout; ``at_ms`` is the deadline. Writes as `apply` does."""
        row = transition(state.mode, FORGET_AFTER if state.mode == OFFLINE else OFFLINE_AFTER)
        after = state._replace(mode=row.to, changed_ms=at_ms)
        status = _status(key, after)
        kept = None if row.to in FINAL else after
        if row.alert is None:
            return kept, (status,)
        return kept, (_alert(key, state, row.alert, at_ms=at_ms), status)

    def _moved(self, state: DeviceState, mode: str, event: DeviceReading) -> DeviceState:
        """The state after its newest reading, in the mode which that leads to."""
        codes, errors = _codes(state, event)
        return DeviceState(
            mode,
            mode,
            state.first_ms,
            event.event_ms,
            event.event_id,
            state.changed_ms if mode == state.mode else event.event_ms,
            self._runtime(state, event.event_ms),
            state.reading_count + 1,
            codes,
            errors,
        )

    def _runtime(self, state: DeviceState, until_ms: int) -> int:
        gap_ms = until_ms - state.last_ms
        if state.mode == RUNNING and gap_ms < self.settings.offline_after_ms:
            return state.runtime_ms + gap_ms
        return state.runtime_ms


def _trigger(state: DeviceState | None, event: DeviceReading) -> str:
    if state is not None and (event.event_ms, event.event_id) < _updated(state):
        return OLDER
    return event.status if event.status in STATUSES else OTHER


def _updated(state: DeviceState) -> tuple[int, str]:
    """Time and id of the newest reading or timeout that the state reflects."""
    if state.mode in (OFFLINE, FORGOTTEN):
        return state.changed_ms, BY_TIMEOUT
    return state.last_ms, state.last_event_id


def _begun(mode: str, first: DeviceReading) -> DeviceState:
    at_ms = first.event_ms
    return _counted(DeviceState(mode, mode, at_ms, at_ms, first.event_id, at_ms), first)


def _counted(state: DeviceState, event: DeviceReading) -> DeviceState:
    """The state with a reading in its counts, and nothing moved."""
    codes, errors = _codes(state, event)
    return state._replace(
        first_ms=min(state.first_ms, event.event_ms),
        reading_count=state.reading_count + 1,
        error_codes=codes,
        error_count=errors,
    )


def _codes(state: DeviceState, event: DeviceReading) -> tuple[tuple[str, ...], int]:
    """The newest error codes, and how many there have been."""
    if event.error_code is None:
        return state.error_codes, state.error_count
    return (*state.error_codes, event.error_code)[-MAX_ERROR_CODES:], state.error_count + 1


def _alert(
    device_id: str, state: DeviceState, kind: str, *, at_ms: int, event: DeviceReading | None = None
) -> DeviceAlert:
    """The alert about a silence that begins, or that ``event`` ends; ``state`` is the one before it."""
    evidence: tuple[str, ...] = (state.last_event_id,)
    since_ms = state.last_ms
    if event is not None:
        evidence, since_ms = (*evidence, event.event_id), event.event_ms
    # The same on every run, so that a replay is recognised.
    return DeviceAlert(
        alert_id=row_id(device_id, kind, since_ms, evidence[-1]),
        device_id=device_id,
        kind=kind,
        raised_ms=at_ms,
        last_heartbeat_ms=state.last_ms,
        silence_ms=None if event is None else at_ms - state.last_ms,
        previous_mode=state.said,
        evidence=evidence,
    )


def _status(device_id: str, state: DeviceState) -> DeviceStatus:
    updated_ms, updated_by = _updated(state)
    return DeviceStatus(
        device_id,
        state.mode,
        state.first_ms,
        state.last_ms,
        state.runtime_ms,
        state.reading_count,
        state.error_codes,
        state.error_count,
        state.changed_ms,
        updated_ms,
        updated_by,
    )
