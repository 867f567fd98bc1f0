import json
from pathlib import Path

import pytest

from dueline.broker.group_configs import (
    GroupConfig,
    GroupTable,
    check_client_group,
    check_may_consume,
)
from dueline.clock import Clock
from dueline.errors import InvalidRequest, NotFound
from dueline.store import Files


def make(folder: Path, *, auto_create: bool = True) -> GroupTable:
    path = folder / "subscriptionGroup.json"
    return GroupTable(path, Files(), clock=Clock(lambda: 1), auto_create=auto_create)


def test_a_group_that_nobody_has_configured_gets_the_defaults(tmp_path: Path) -> None:
    groups = make(tmp_path)

    assert groups.get("g") is None
    assert groups.find("g") == GroupConfig(group_name="g", retry_max_times=16)
    assert groups.get("g") is not None


def test_where_groups_are_not_made_by_being_used_an_unknown_one_is_refused(tmp_path: Path) -> None:
    groups = make(tmp_path, auto_create=False)

    with pytest.raises(NotFound) as caught:
        groups.find("g")
    assert caught.value.details["what"] == "group"


def test_a_configured_group_survives(tmp_path: Path) -> None:
    groups = make(tmp_path)
    config = GroupConfig(group_name="g", retry_max_times=3, group_retry_policy={"type": "X"})
    groups.put(config)
    groups.save()

    assert make(tmp_path).existing("g") == config
    assert groups.delete("g")
    groups.save()
    assert make(tmp_path).get("g") is None


@pytest.mark.parametrize("name", ["", "a b", "CID_RMQ_SYS_TRANS"])
def test_names_that_no_group_of_clients_has_are_refused(tmp_path: Path, name: str) -> None:
    groups = make(tmp_path)

    for refused in (check_client_group, groups.find):
        with pytest.raises(InvalidRequest) as caught:
            refused(name)
        assert caught.value.details["field"] == "group"


@pytest.mark.parametrize("auto_create", [True, False])
@pytest.mark.parametrize("name", ["a b", "CID_RMQ_SYS_TRANS"])
def test_a_file_that_lists_such_names_makes_them_no_groups_of_clients(
    tmp_path: Path, name: str, auto_create: bool
) -> None:
    table = {name: {"groupName": name}, "g": {"groupName": "g"}}
    text = json.dumps({"subscriptionGroupTable": table})
    (tmp_path / "subscriptionGroup.json").write_text(text)
    groups = make(tmp_path, auto_create=auto_create)

    with pytest.raises(InvalidRequest) as caught:
        groups.find(name)
    assert caught.value.details["field"] == "group"
    assert groups.get(name) is None
    assert list(groups.all().entries) == ["g"]


def test_a_stopped_group_may_not_consume() -> None:
    check_may_consume(GroupConfig(group_name="g"))
    with pytest.raises(InvalidRequest) as caught:
        check_may_consume(GroupConfig(group_name="g", consume_enable=False))
    assert caught.value.details["what"] == "permission"
