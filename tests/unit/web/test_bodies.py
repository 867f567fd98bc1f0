import pytest

from dueline.web import bodies
from dueline.web.bodies import forms_of, show_body


@pytest.mark.parametrize(
    ("body", "forms"),
    [
        (b'{"a": 1}', ["json", "text", "hex"]),
        (b"[1, 2]", ["json", "text", "hex"]),
        (b"17", ["text", "hex"]),
        (b"plain\ntext", ["text", "hex"]),
        (b"", ["text", "hex"]),
        (b"\x00\x01", ["hex"]),
        (b"\xff\xfe", ["hex"]),
        (b"[" * 100_000, ["text", "hex"]),
        ("é".encode()[:1] + b"x", ["hex"]),
        ("caf\u00e9".encode()[:-1], ["text", "hex"]),
    ],
)
def test_a_body_is_shown_as_what_it_is(body: bytes, forms: list[str]) -> None:
    assert forms_of(body) == forms


def test_json_is_laid_out_and_bytes_have_columns() -> None:
    assert show_body(b'{"a":"\xc3\xa9"}', "json") == '{\n  "a": "é"\n}'
    assert show_body(b"AB\x00" + b"C" * 16, "hex").splitlines() == [
        f"00000000  {'41 42 00 ' + '43 ' * 13} AB.CCCCCCCCCCCCC",
        f"00000010  {'43 43 43 ':<48} CCC",
    ]


def test_no_more_than_a_bound_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SHOWN_BYTES_MAX", 20)

    assert show_body(b"x" * 100, "text") == "x" * 20
    assert len(show_body(b"x" * 100, "hex").splitlines()) == 2
