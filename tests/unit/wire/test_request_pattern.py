from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.errors import LocalProtocolError
from dueline.wire import Command
from dueline.wire.codes import Language
from dueline.wire.frame import FRAME_SIZE_BYTES_MAX
from dueline.wire.request_pattern import RequestPattern

TEXTS = st.text(st.characters(codec="utf-8"))


@given(
    ext=st.dictionaries(TEXTS, TEXTS, max_size=6),
    data=st.data(),
    opaque=st.integers(0, (1 << 31) - 1),
    body=st.binary(),
)
def test_same_bytes_as_the_codec(
    ext: dict[str, str], data: st.DataObject, opaque: int, body: bytes
) -> None:
    varying = [name for name in ext if data.draw(st.booleans())]
    values = [data.draw(TEXTS) for _ in varying]
    filled = {**ext, **dict(zip(varying, values, strict=True))}
    plain = Command(code=310, opaque=opaque, ext=filled, body=body, language=Language.PYTHON)

    pattern = RequestPattern(310, ext, varying, Language.PYTHON)

    assert pattern.encode(opaque, values, body) == plain.encode()
    assert pattern.ext(values) == filled


def test_signs_of_formats_are_text() -> None:
    pattern = RequestPattern(310, {"%s": "100%", "b": "", "c": "%d"}, ["b"], Language.PYTHON)
    filled = {"%s": "100%", "b": "5%s", "c": "%d"}

    plain = Command(code=310, opaque=4, ext=filled, language=Language.PYTHON)

    assert pattern.encode(4, ["5%s"], b"") == plain.encode()


def test_what_fits_into_no_frame_is_refused() -> None:
    pattern = RequestPattern(310, {"b": ""}, ["b"], Language.PYTHON)

    with pytest.raises(LocalProtocolError, match="frame: expected at most"):
        pattern.encode(4, ["x"], b"x" * FRAME_SIZE_BYTES_MAX)
