"""Names and secrets from variables and files, and never shown."""

from pathlib import Path

import pytest

from dueline.credentials import Credentials
from dueline.errors import InvalidRequest


def test_they_come_from_a_variable_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("billing:from a file\n")

    found = Credentials.from_environment({"DUELINE_TOKEN_FILE": str(path)})
    assert found is not None
    assert (found.name, found.secret, found.token) == (
        "billing",
        "from a file",
        "billing:from a file",
    )
    first = {"DUELINE_TOKEN": "a:b:c", "DUELINE_TOKEN_FILE": str(path)}
    assert Credentials.from_environment(first) == Credentials(name="a", secret="b:c")
    assert Credentials.from_environment({"DUELINE_TOKEN": ""}) is None


@pytest.mark.parametrize("text", ["hush", "hush:", ":hush", "a:hüsh"])
def test_what_is_wrong_is_said_without_what_was_found(text: str) -> None:
    with pytest.raises(InvalidRequest, match="DUELINE_TOKEN: expected") as refused:
        Credentials.from_environment({"DUELINE_TOKEN": text})

    assert "hush" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none", tmp_path / "bytes", tmp_path):
        with pytest.raises(InvalidRequest, match="DUELINE_TOKEN_FILE"):
            Credentials.from_environment({"DUELINE_TOKEN_FILE": str(path)})


def test_a_secret_is_not_shown() -> None:
    assert "hush" not in repr(Credentials(name="a", secret="hush"))
