"""The property that states of an older version become states of the present one, whatever they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.project.project import Project
from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.keyed.state_upgrade import Upgrade
from stateward.runtime.watermark.admission import Seen

Test = Callable[[], None]


def reads_states(
    stream: str | StreamJob,
    version: int,
    state_type: type[Any],
    event_type: type[Any] | None = None,
    *,
    to: Callable[[Any], Any] | None = None,
    **values: st.SearchStrategy[Any],
) -> Test:
    """Make the test that states of an older version are read by the stream as it is now.

    A module of tests assigns it: `test_states_of_version_1 = reads_states("refunds", 1, RefundsV1)`. It draws
    states of the older version, as a release with those types has written them, and reads them with the
    steps and types of the present one.

    Args:
        stream: The stream, or its declaration.
        version: The older version.
        state_type: The named tuple of its states, copied from the release that wrote them.
        event_type: That of its events; None if it is still the same.
        to: From an older state to the one that is expected; None: any state will do.
        values: By field of the older state its values, where not every value of its type can occur.
    """
    job = Project.imported().declaration(stream) if isinstance(stream, str) else stream
    before: KeyStateCodec[Any, Any] = KeyStateCodec(state_type, event_type or job.event_type)
    after: KeyStateCodec[Any, Any] = KeyStateCodec(job.state_type, job.event_type)
    upgrade = Upgrade(after, job.state_version, job.state_steps)

    @settings(deadline=None)
    @given(kept=_kept(state_type, event_type or job.event_type, values), key=st.text(min_size=1, max_size=9))
    def test(kept: KeyState[Any, Any], key: str) -> None:
        text = upgrade(version, key, before.encode(kept))
        found = after.decode(text)
        assert after.encode(found) == text
        assert (found.recent, found.floor_ms, len(found.held)) == (kept.recent, kept.floor_ms, len(kept.held))
        assert (found.state is None) == (kept.state is None)
        for old, new in zip(kept.held, found.held, strict=True):
            assert (new.event_id, new.event_ms) == (old.event_id, old.event_ms)
        if to is not None and kept.state is not None:
            assert found.state == to(kept.state)

    test.__doc__ = f"States of version {version} are read as ones of version {job.state_version}."
    return test


def _kept(
    state_type: type[Any], event_type: type[Any], values: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[KeyState[Any, Any]]:
    fields = {name: values.get(name, _of(kind)) for name, kind in get_type_hints(state_type).items()}
    state = st.builds(state_type, **fields)
    ids, times = st.text(min_size=1, max_size=5), st.integers(0, 2**45)
    more = {name: _of(kind) for name, kind in list(get_type_hints(event_type).items())[2:]}
    events = st.builds(event_type, ids, times, **{name: values.get(name, one) for name, one in more.items()})
    held = st.lists(events, max_size=3).map(tuple)
    recent = st.lists(st.builds(Seen, ids, times), max_size=3).map(tuple)
    return st.builds(KeyState, st.none() | state, held, recent, st.none() | times)


def _of(kind: Any) -> st.SearchStrategy[Any]:
    if kind is int:
        return st.integers(-(2**53), 2**53)
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    return st.from_type(kind)
