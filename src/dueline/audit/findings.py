"""What is wrong with a store, one finding each, and what that means for opening it.

    note      worth knowing; nothing is wrong
    repair    opening the store puts it right, nothing is lost
    loss      something is lost, or stays wrong when the store is opened

Findings of one kind are counted; only the first ones are kept, since a damaged disk has millions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

__all__ = ["KEPT_PER_KIND_MAX", "Finding", "Findings", "Severity"]

KEPT_PER_KIND_MAX: Final = 20


class Severity(IntEnum):
    """How bad; also the exit code of `dueline check`, where notes do not count."""

    NOTE = 0
    REPAIR = 1
    LOSS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be.

    `kind` and `subject` say what and where, so that two readings can be compared.
    """

    severity: Severity
    kind: str
    subject: str
    text: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        return {
            "severity": self.severity.name.lower(),
            "kind": self.kind,
            "subject": self.subject,
            "text": self.text,
            "remedy": self.remedy,
        }


class Findings:
    """A bounded collection of findings."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[tuple[Severity, str]] = Counter()
        for finding in findings:
            self._add(finding)

    def note(self, kind: str, subject: str, text: str, remedy: str = "") -> None:
        self._new(Severity.NOTE, kind, subject, text, remedy)

    def repair(self, kind: str, subject: str, text: str, remedy: str = "") -> None:
        self._new(Severity.REPAIR, kind, subject, text, remedy)

    def loss(self, kind: str, subject: str, text: str, remedy: str = "") -> None:
        self._new(Severity.LOSS, kind, subject, text, remedy)

    def _new(self, severity: Severity, kind: str, subject: str, text: str, remedy: str) -> None:
        self._add(Finding(severity=severity, kind=kind, subject=subject, text=text, remedy=remedy))

    def _add(self, finding: Finding) -> None:
        key = (finding.severity, finding.kind)
        self.counts[key] += 1
        if self.counts[key] <= KEPT_PER_KIND_MAX:
            self.kept.append(finding)

    @property
    def worst(self) -> Severity:
        return max((severity for severity, _ in self.counts), default=Severity.NOTE)

    def left_out(self) -> list[tuple[Severity, str, int]]:
        """Kinds of which there were more than are kept, and how many more."""
        return [
            (severity, kind, count - KEPT_PER_KIND_MAX)
            for (severity, kind), count in self.counts.items()
            if count > KEPT_PER_KIND_MAX
        ]

    def confirmed_by(self, other: Findings) -> Findings:
        """What a second reading found too: a running broker changes files between two looks."""
        again = {(finding.kind, finding.subject): finding for finding in other.kept}
        result = Findings()
        for finding in self.kept:
            found = again.get((finding.kind, finding.subject))
            if found is not None:
                result._add(replace(found, severity=min(finding.severity, found.severity)))
        return result
