"""The package's names: there when they are used, and not before."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import dueline.store


def fresh() -> ModuleType:
    """The package as a process has it that has just imported it."""
    spec = importlib.util.find_spec("dueline.store")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_imported_before_it_is_used() -> None:
    assert dueline.store.__all__
    assert set(vars(fresh())).isdisjoint(dueline.store.__all__)


def test_a_name_is_looked_for_once() -> None:
    module = fresh()

    found = module.Store

    assert vars(module)["Store"] is found
    assert "Record" not in vars(module)


def test_type_checkers_read_the_same_names_as_programs_get() -> None:
    assert dueline.store.__file__ is not None
    tree = ast.parse(Path(dueline.store.__file__).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    read = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert sorted(read) == sorted(dueline.store.__all__)
    for name, module in read.items():
        assert module is not None
        assert getattr(importlib.import_module(module), name) is getattr(dueline.store, name)


def test_what_is_not_there_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match=r"module 'dueline\.store' has no attribute 'Shop'"):
        _ = dueline.store.Shop
    with pytest.raises(ImportError, match="cannot import name 'Shop'"):
        from dueline.store import Shop  # noqa: F401
    assert not hasattr(dueline.store, "__path_of_nothing__")
