"""Reads ``control/<stream>.json``, the desired state that the control plane writes."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from stateward.contract import storage
from stateward.contract.stream_control import DriverOrders, Failure, orders_in

_LOG = logging.getLogger(__name__)


def stop_reason(uri: str, run_id: str) -> str | None:
    """Why this launch has to drain and exit, or None.

    A missing or unreadable document is ignored: a driver started by hand has none, and a short outage of the
    storage must not stop a stream.

    Args:
        uri: The control document.
        run_id: This launch.
    """
    orders = _read(uri)
    asked = {"stopped": "stop", "suspended": "suspend"}.get(orders.desired)
    if asked:
        return f"asked to {asked} by {orders.requested_by or 'the control plane'}"
    if orders.run_id and orders.run_id != run_id:
        return f"run {orders.run_id} is to take over"
    if orders.run_id and orders.launch and orders.launch.end_reason:
        return f"asked to end: {orders.launch.end_reason}"
    return None


@dataclass(frozen=True)
class LaunchReason:
    """Why the control plane started a launch.

    Attributes:
        sentence: The reason as text; empty if unknown.
        failure: Why the previous driver failed; None if this is no restart.
    """

    sentence: str = ""
    failure: Failure | None = None


def reason_of_launch(uri: str, run_id: str) -> LaunchReason:
    """Why this launch was started.

    Args:
        uri: The control document.
        run_id: This launch.
    """
    orders = _read(uri)
    if orders.run_id != run_id:
        return LaunchReason()
    return LaunchReason(orders.reason, orders.launch.failure if orders.launch else None)


def _read(uri: str) -> DriverOrders:
    try:
        return orders_in(storage.read_json(uri) or {}, uri)
    except Exception as error:
        _LOG.warning("control document %s cannot be read: %s", uri, error)
        return DriverOrders()
