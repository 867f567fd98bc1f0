"""Small stores to look through, and ways to damage them."""

from __future__ import annotations

from pathlib import Path

from tests.unit.store.making import QuickFiles, Wall, carry_over, delayed, open_store, ordinary

from dueline.audit.findings import Findings
from dueline.audit.snapshot import Snapshot, take

FILES = QuickFiles()


def make_store(root: Path) -> Path:
    """Closed, with three visible messages, two at the gate, and three that are pending.

    Delayed messages have the numbers 0 and 1 (at the gate), 2 (cancelled), 3, 4 and 5 (pending).
    """
    with open_store(root, Wall()) as store:
        for body in (b"body of a", b"body of b", b"body of c"):
            store.put(ordinary(body, KEYS=body.decode()[-1]))
        for number, delay_ms in enumerate((5_000, 6_000, 50_000, 60_000, 70_000, 80_000)):
            store.put(delayed(delay_ms, b"delayed %d" % number, KEYS=f"k{number}"))
        carry_over(store, ahead_ms=10_000)
        store.cancel("k2")
    return root


def snapshot(root: Path, findings: Findings | None = None) -> Snapshot:
    return take(root, FILES, findings if findings is not None else Findings())


def replace_in(folder: Path, old: bytes, new: bytes) -> None:
    """Damage that keeps every file's length."""
    assert len(old) == len(new)
    count = 0
    for path in folder.rglob("*"):
        if path.is_file() and old in (data := path.read_bytes()):
            path.write_bytes(data.replace(old, new))
            count += 1
    assert count, f"expected {old!r} somewhere below {folder}"


def told(findings: Findings) -> set[tuple[str, str]]:
    """Severity and kind of everything that was found."""
    return {(severity.name.lower(), kind) for severity, kind in findings.counts}
