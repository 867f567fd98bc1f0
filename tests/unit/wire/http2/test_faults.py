"""Faults cross processes as they are."""

from __future__ import annotations

import pickle

from dueline.wire.http2.faults import ErrorCode, Fault


def test_a_fault_is_the_same_elsewhere() -> None:
    fault = Fault(ErrorCode.CANCEL, "why", stream_id=7)

    again = pickle.loads(pickle.dumps(fault))

    assert (again.code, again.message, again.stream_id) == (ErrorCode.CANCEL, "why", 7)
