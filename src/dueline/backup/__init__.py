"""Copies of a broker's data: generations in a destination (`dueline backup`, `dueline restore`)."""

from dueline.backup.copying import Result, back_up
from dueline.backup.manifest import Manifest
from dueline.backup.restoring import Restored, find_generation, restore
from dueline.backup.source import BrokerSource, FolderSource
from dueline.backup.vault import Vault, generations_of

__all__ = [
    "BrokerSource",
    "FolderSource",
    "Manifest",
    "Restored",
    "Result",
    "Vault",
    "back_up",
    "find_generation",
    "generations_of",
    "restore",
]
