import pytest

from dueline.commands.bodies import body_fields, body_text


@pytest.mark.parametrize(
    ("body", "text", "fields"),
    [
        (b"", "", {"body": ""}),
        ("für".encode(), "für", {"body": "für"}),
        (b"\xff\xfe", r"\xff\xfe", {"body_base64": "//4="}),
    ],
)
def test_no_body_is_changed(body: bytes, text: str, fields: dict[str, str]) -> None:
    assert body_text(body) == text
    assert body_fields(body) == fields
