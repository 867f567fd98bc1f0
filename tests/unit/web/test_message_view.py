from dueline.flight.console import Inspected, Place
from dueline.flight.waiting import MessageEntries, MessageEntry, MessageEvent, TopicRule
from dueline.web.message_view import message_view

NOW_MS = 1_000_000
NOTHING = MessageEntries(entries=())


def inspected(**fields: object) -> Inspected:
    plain = Inspected(
        number=7,
        state="pending",
        topic="t",
        queue_id=0,
        unique_id="u",
        keys="k",
        tag="",
        properties={"KEYS": "k", "b": "2", "a": "1"},
        born_ms=1,
        accepted_ms=2,
        due_ms=NOW_MS + 5,
        place=None,
        readers=(),
        body=b"x",
        body_size_bytes=1,
    )
    return plain.changed(**fields)


def steps(message: Inspected, found: MessageEntries = NOTHING) -> list[tuple[str, bool]]:
    view = message_view(message, found, now_ms=NOW_MS, query={})
    return [(each.name, each.is_ahead) for each in view.steps]


def entry(*names: str) -> MessageEntries:
    found = MessageEntry(
        number=7,
        unique_id="u",
        topic="t",
        queue_id=0,
        keys="",
        tags="",
        properties={},
        accepted_ms=2,
        born_ms=1,
        due_ms=NOW_MS + 5,
        state="pending",
        attempt=0,
        body_size_bytes=1,
        body=b"",
        events=tuple(MessageEvent(name=name, time_ms=3) for name in names),
    )
    return MessageEntries(entries=(found,))


def held(rule: TopicRule | None, **fields: object) -> str:
    return message_view(inspected(**fields), NOTHING, now_ms=NOW_MS, query={}, rule=rule).held


def test_what_a_rule_holds_back_is_not_merely_late() -> None:
    paused = TopicRule(topic="t", is_paused=True, rate=None, expiry_ms=None, pending=2, held_back=1)
    slow = paused.changed(is_paused=False, rate=5)

    assert held(paused, due_ms=NOW_MS) == "its topic is paused"
    assert held(slow, due_ms=NOW_MS) == "its topic lets 5 a second go"
    assert held(paused, due_ms=NOW_MS + 1) == ""
    assert held(paused, due_ms=NOW_MS, state="cancelled") == ""
    assert held(slow.changed(held_back=0), due_ms=NOW_MS) == ""
    assert held(None, due_ms=NOW_MS) == ""


def test_what_is_still_to_come_is_told_apart() -> None:
    assert steps(inspected()) == [("born", False), ("accepted", False), ("due", True)]
    assert steps(inspected(state="cancelled", due_ms=5)) == [
        *(("born", False), ("accepted", False), ("due", False), ("cancelled", False)),
    ]
    assert steps(inspected(), entry("accepted")) == [("accepted", False), ("due", True)]
    assert steps(inspected(state="cancelled"), entry("accepted", "cancelled")) == [
        ("accepted", False),
        ("cancelled", False),
    ]


def test_a_late_message_says_by_how_much() -> None:
    place = Place(topic="t", queue_id=0, offset=3, visible_ms=NOW_MS + 2_005)
    view = message_view(inspected(state="delivered", place=place), NOTHING, now_ms=NOW_MS, query={})

    assert view.late_ms == 2_000
    assert view.steps[-1].note == "2 s late"
    assert not view.is_changeable


def test_properties_are_sorted_and_links_keep_the_address() -> None:
    view = message_view(inspected(), NOTHING, now_ms=NOW_MS, query={"name": "k", "as": "hex"})

    assert view.properties == [("a", "1"), ("b", "2")]
    assert (view.form, view.links["text"]) == ("hex", "/message?name=k&as=text")
