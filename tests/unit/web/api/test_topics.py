from tests.unit.server.local import outgoing, send
from tests.unit.web.local import Site

from dueline.server.process import BrokerProcess


def test_a_topic_is_paused_and_resumed(site: Site, broker: BrokerProcess) -> None:
    send(broker, outgoing("x", topic="a", TIMER_DELAY_MS="900000"))

    paused = site.ask("POST", "/api/v1/topics/a/rules", {"is_paused": True, "rate": 5})
    page = site.get("/topics").text
    site.ask("POST", "/api/v1/topics/a/rules", {"is_paused": False, "expiry": "1h"})
    (rule,) = site.get("/api/v1/rules").json["rules"]

    assert paused.status == 200, paused.text
    assert "paused" in page
    assert "Resume" in page
    assert (rule["is_paused"], rule["rate"], rule["expiry_ms"]) == (False, 5, 3_600_000)


def test_rules_that_make_no_sense_are_refused(site: Site) -> None:
    for body in ({"rate": -1}, {"rate": "fast"}, {"expiry": "soon"}, {"colour": "red"}):
        assert site.ask("POST", "/api/v1/topics/a/rules", body).status == 400, body


def test_nothing_ahead_is_no_crowd(site: Site) -> None:
    assert site.get("/api/v1/forecast?ahead=2d").json == {"crowds": []}
    assert site.get("/api/v1/forecast?ahead=x").status == 400
