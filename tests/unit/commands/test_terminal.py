import io
import json

import pytest

from dueline.commands.terminal import plain, say, show_status, to_json

HOSTILE = [
    "\x1b[2J",  # clears the screen
    "\x1b]0;title\x07",
    "\x9b31m",  # the same in one byte, for terminals that take it
    "\rforged",
    "first\nforged line",
    "\u202egnp.exe",  # turns the direction of what follows
    "\x00\x7f",
    "\u2028",
    "\ud800",  # half a character
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    out = io.StringIO()

    say(f"before {text} after", file=out)

    printed = out.getvalue()
    assert printed.endswith("\n")
    assert printed[:-1].isprintable()
    assert printed.startswith("before ")
    assert printed.endswith(" after\n")


@pytest.mark.parametrize("text", ["hello", "订单 已支付", "a\u3000b", "naïve – ok", "\\x1b"])
def test_what_people_read_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("indent", [None, 1])
def test_json_keeps_its_value_and_is_safe_to_print(text: str, indent: int | None) -> None:
    lines = to_json({text: [text, "订单"]}, indent=indent)

    assert all(line.isprintable() for line in lines)
    assert "订单" in "".join(lines)
    assert json.loads("\n".join(lines)) == {text: [text, "订单"]}


def test_a_status_line_writes_over_the_one_before_and_nothing_else() -> None:
    out = io.StringIO()

    show_status("3 wait \x1b[2J\n", out)

    assert out.getvalue() == "\r\x1b[K3 wait \\x1b[2J\\n"
