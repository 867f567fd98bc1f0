"""Patience has an end, and is renewed."""

from __future__ import annotations

import pytest

from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.patience import PATIENCE_MAX, Patience


def test_patience_has_an_end_and_is_renewed() -> None:
    patience = Patience()
    patience.spend(PATIENCE_MAX)
    patience.renew()
    patience.spend(PATIENCE_MAX - 1)
    patience.spend()

    with pytest.raises(Fault) as caught:
        patience.spend()

    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM
