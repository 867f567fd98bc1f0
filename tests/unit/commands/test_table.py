import pytest

from dueline.commands.table import layout, show_table

HEADINGS = ("TOPIC", "PENDING", "BODY")


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() -> None:
    assert layout(HEADINGS, [("orders", 1200, "x"), ("a", None, "yy")], None) == [
        "TOPIC   PENDING  BODY",
        "orders    1,200  x",
        "a                yy",
    ]


@pytest.mark.parametrize("width", [30, 40, 60])
def test_a_table_is_no_wider_than_the_terminal(width: int) -> None:
    lines = layout(HEADINGS, [("t" * 50, 7, "b" * 500), ("u", 8, "c")], width)

    assert max(map(len, lines)) == width
    assert "…" in lines[1]
    assert all("…" not in line for line in (lines[0], lines[2]))


def test_wide_characters_take_two_columns() -> None:
    lines = layout(("A", "B"), [("注文注文注文", "x"), ("abc", "y")], 11)

    assert lines == ["A         B", "注文注…   x", "abc       y"]


def test_escapes_are_shown_and_counted() -> None:
    lines = layout(("A", "B"), [("\x1b[2J", "x\ny")], None)

    assert lines == ["A        B", r"\x1b[2J  x\ny"]


def test_a_pipe_gets_whole_words_and_no_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show_table(("A",), [("x" * 500,)])

    assert capsys.readouterr().out == f"A\n{'x' * 500}\n"


def test_a_terminal_gets_a_bold_heading_unless_it_wants_no_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.delenv("NO_COLOR", raising=False)

    show_table(("A",), [("x" * 500,)])
    assert capsys.readouterr().out == f"\x1b[1mA\x1b[0m\n{'x' * 19}…\n"

    monkeypatch.setenv("NO_COLOR", "1")
    show_table(("A",), [])
    assert capsys.readouterr().out == "A\n"
