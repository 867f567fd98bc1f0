import json
import os
import sys
from pathlib import Path

import pytest

from dueline.config import DeliverySettings
from dueline.errors import InvalidRequest
from dueline.server.driver import (
    check_driver,
    driver_arguments,
    driver_command,
    driver_environment,
)


def test_settings_become_the_pipelines_arguments() -> None:
    settings = DeliverySettings(
        master="local[2]",
        transform="orders:unpaid",
        checkpoint="/data/checkpoint",
        ahead_ms=7_000,
        lead_ms=1_000,
        row_count_max=10,
        heap="1g",
        conf={"spark.a": "b"},
    )

    assert " ".join(driver_arguments(settings, ["h:1", "h:2"])) == (
        "--broker h:1 --broker h:2 --master local[2] --heap 1g --transform orders:unpaid "
        "--checkpoint /data/checkpoint --option ahead=7000ms --option lead=1000ms "
        "--option row_count_max=10"
    )


def test_what_is_not_set_is_not_passed_and_the_child_is_tethered() -> None:
    command = driver_command(DeliverySettings(), ["h:1"])

    assert command[:3] == [sys.executable, "-m", "dueline.spark.delivery"]
    assert "--transform" not in command
    assert "--checkpoint" not in command
    assert command[-1] == "--tethered"


def test_sparks_settings_travel_where_a_process_list_does_not_show_them() -> None:
    settings = DeliverySettings(conf={"spark.ssl.keyPassword": "s3,cr=t"})

    command = driver_command(settings, ["h:1"])
    environ = driver_environment(settings, {"DUELINE_SPARK_CONF": "of another"})

    assert not any("s3,cr=t" in word for word in command)
    assert json.loads(environ["DUELINE_SPARK_CONF"]) == {"spark.ssl.keyPassword": "s3,cr=t"}


def test_tasks_on_this_machine_use_our_python_unless_told_otherwise() -> None:
    local, cluster = DeliverySettings(), DeliverySettings(master="spark://h:7077")

    assert driver_environment(local, {})["PYSPARK_PYTHON"] == sys.executable
    assert driver_environment(local, {"PYSPARK_PYTHON": "x"})["PYSPARK_PYTHON"] == "x"
    assert "PYSPARK_PYTHON" not in driver_environment(cluster, {})


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[4]", "local[2,3]", "spark://h:7077", "yarn", "k8s://https://h:1"],
)
def test_masters_of_spark_are_accepted(master: str) -> None:
    check_driver(DeliverySettings(master=master))


@pytest.mark.parametrize("master", ["locl[*]", "local[x]", "localhost", "spark:/h", "h:7077", " "])
def test_a_misspelt_master_is_refused_before_anything_is_started(master: str) -> None:
    with pytest.raises(InvalidRequest, match=r"delivery\.master: expected local"):
        check_driver(DeliverySettings(master=master))


def test_a_transform_is_looked_for_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = DeliverySettings(transform="mytx:half")
    with pytest.raises(InvalidRequest, match="expected a module mytx in the folder"):
        check_driver(settings)

    (tmp_path / "mytx.py").write_text("raise RuntimeError('it is not imported here')")

    check_driver(settings)
    environ = driver_environment(settings, {"PYTHONPATH": "/elsewhere"})
    assert environ["PYTHONPATH"] == os.pathsep.join([str(tmp_path), "/elsewhere"])


@pytest.mark.parametrize("transform", ["nosuch", "nosuch:", ":f"])
def test_a_transform_names_a_module_and_a_function(transform: str) -> None:
    with pytest.raises(InvalidRequest, match="expected module:function"):
        check_driver(DeliverySettings(transform=transform))
