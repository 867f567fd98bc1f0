"""The rules of the road on disk: `road.json` in the store's folder.

    {"rules": {"reminders": {"is_paused": false, "rate": 100, "expiry_ms": null, "resumed_ms": 0}}}

Kept by the store and not with the topics, since they must hold before anything is shown: opening a
store shows what has fallen due.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from dueline.errors import InvalidRequest
from dueline.store.files import Files
from dueline.store.road import RoadRule

__all__ = ["load", "save"]

NAME: Final = "road.json"


def save(files: Files, root: Path, rules: Mapping[str, RoadRule]) -> None:
    """Write them; returns when they are on disk."""
    plain = {name: asdict(rule) for name, rule in rules.items() if rule != RoadRule()}
    files.replace(root / NAME, [json.dumps({"rules": plain}, indent=1).encode()])


def load(files: Files, root: Path) -> dict[str, RoadRule]:
    """The rules that were set; none if there is no file.

    Raises:
        InvalidRequest: it is damaged; a topic that should be paused must not go on in silence.
    """
    path = root / NAME
    if not files.exists(path):
        return {}
    try:
        found = json.loads(files.read(path))["rules"]
        rules = {str(name): RoadRule(**rule) for name, rule in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidRequest(
            f"{path}: expected the rules of topics as JSON, found: {error}; repair the file, or "
            "remove it: then no topic is paused, and none has a rate or an expiry",
            path=str(path),
        ) from error
    for name, rule in rules.items():
        _check(path, name, rule)
    return rules


def _check(path: Path, name: str, rule: RoadRule) -> None:
    numbers = (rule.rate, rule.expiry_ms, rule.resumed_ms)
    is_sound = isinstance(rule.is_paused, bool) and all(
        number is None or (type(number) is int and number >= 0) for number in numbers
    )
    if not is_sound or rule.rate == 0 or rule.resumed_ms is None:
        raise InvalidRequest(
            f"{path}: topic {name}: expected a rule of whole numbers, found {asdict(rule)}",
            path=str(path),
        )
