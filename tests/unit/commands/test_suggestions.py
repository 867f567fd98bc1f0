import pytest
from tests.unit.commands.conftest import Run

from dueline.commands.catalogue import parser_of
from dueline.commands.suggestions import flags_of


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("snd", "orders", "x"), "send"),
        (("penidng",), "pending"),
        (("dead-leters", "g"), "dead-letters"),
        (("send", "orders", "x", "--dealy", "3s"), "--delay"),
        (("send", "orders", "x", "--dealy=3s"), "--delay"),
        (("topics", "create", "orders", "--queus", "3"), "--queues"),
        (("stats", "--jsn"), "--json"),
    ],
)
def test_a_misspelt_word_is_recognised(run: Run, words: tuple[str, ...], meant: str) -> None:
    ran = run(*words)

    assert ran.code == 2
    assert ran.err.endswith(f"; did you mean {meant}?\n")


def test_what_is_like_nothing_is_only_refused(run: Run) -> None:
    assert "found 'xyzzy'; `dueline --help` lists them" in run("xyzzy").err
    assert "unrecognized arguments: --xyzzy\n" in run("stats", "--xyzzy").err


def test_escapes_in_a_wrong_word_are_shown(run: Run) -> None:
    assert "\x1b" not in run("\x1b[2J").err
    assert "\x1b" not in run("stats", "--\x1b[2J").err


def test_flags_of_actions_count() -> None:
    flags = flags_of(parser_of("topics"))

    assert {"--json", "--all", "--queues"} <= set(flags)
    assert len(flags) == len(set(flags))
