"""Findings are counted whole, kept in part, and believed when they are seen twice."""

from dueline.audit.findings import KEPT_PER_KIND_MAX, Findings, Severity


def test_the_worst_decides() -> None:
    findings = Findings()
    worst = [findings.worst]
    findings.note("clock", "store", "late")
    worst.append(findings.worst)
    findings.loss("record", "17", "damaged")
    findings.repair("queue", "t/0", "short")
    worst.append(findings.worst)

    assert worst == [Severity.NOTE, Severity.NOTE, Severity.LOSS]


def test_many_of_a_kind_are_counted_and_few_are_kept() -> None:
    findings = Findings()
    for number in range(KEPT_PER_KIND_MAX + 3):
        findings.loss("record", str(number), "damaged")
    findings.loss("queue", "t/0", "missing")

    assert len(findings.kept) == KEPT_PER_KIND_MAX + 1
    assert findings.left_out() == [(Severity.LOSS, "record", 3)]


def test_only_what_is_found_again_counts_and_as_the_milder_of_the_two() -> None:
    first, second = Findings(), Findings()
    first.loss("record", "1", "damaged")
    first.loss("record", "2", "damaged")
    second.repair("record", "2", "being written")
    second.loss("record", "3", "damaged")

    confirmed = first.confirmed_by(second)

    assert [(each.severity, each.subject, each.text) for each in confirmed.kept] == [
        (Severity.REPAIR, "2", "being written")
    ]


def test_a_finding_for_programs() -> None:
    findings = Findings()
    findings.loss("record", "17", "damaged", "restore a backup")

    assert findings.kept[0].to_json() == {
        "severity": "loss",
        "kind": "record",
        "subject": "17",
        "text": "damaged",
        "remedy": "restore a backup",
    }
