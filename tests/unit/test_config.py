import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from dueline import config
from dueline.config import Config, StoreSettings, load
from dueline.errors import InvalidRequest
from dueline.server.process import store_options
from dueline.store import StoreOptions

DOCS = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `dueline.toml` of the folder that the tests are run from."""
    monkeypatch.chdir(tmp_path)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_without_anything_every_setting_has_its_default() -> None:
    loaded = load()

    assert loaded.config == Config()
    assert {loaded.origin_of(each.name) for each in config.settings()} == {"default"}


@pytest.mark.parametrize(
    ("in_file", "environ", "flags", "expected", "origin"),
    [
        (True, {}, {}, "warning", "file dueline.toml"),
        (
            True,
            {"DUELINE_LOG_LEVEL": "error"},
            {},
            "error",
            "environment DUELINE_LOG_LEVEL",
        ),
        (
            True,
            {"DUELINE_LOG_LEVEL": "error"},
            {"log_level": "debug"},
            "debug",
            "command line",
        ),
        (False, {"DUELINE_LOG_LEVEL": "error"}, {"log_level": "debug"}, "debug", "command line"),
    ],
)
def test_the_last_source_that_names_a_setting_decides(
    in_file: bool, environ: Mapping[str, str], flags: Mapping[str, str], expected: str, origin: str
) -> None:
    if in_file:
        written(Path("dueline.toml"), 'log_level = "warning"')

    loaded = load(environ=environ, flags=flags)

    assert loaded.config.log_level == expected
    assert loaded.origin_of("log_level") == origin


def test_sections_are_read_with_units(tmp_path: Path) -> None:
    file = written(
        tmp_path / "some.toml",
        '[store]\nretention = "24h"\ncommit_segment_size = "64MiB"\n'
        '[delivery]\nconf = { "spark.ui.enabled" = "true" }\n',
    )

    read = load(file=file).config

    assert read.store.retention_ms == 24 * 3600 * 1000
    assert read.store.commit_segment_size_bytes == 64 * 1024 * 1024
    assert read.delivery.conf == {"spark.ui.enabled": "true"}
    assert read.store == dataclasses.replace(
        StoreSettings(), retention_ms=86_400_000, commit_segment_size_bytes=67_108_864
    )


@pytest.mark.parametrize(
    ("text", "environ", "flags", "nearest"),
    [
        ("[store]\nflsh = 1", {}, {}, "store.flush"),
        ("[stor]\nflush = 1", {}, {}, "store.flush"),
        ("dat = 1", {}, {}, "data"),
        ("", {"DUELINE_STORE_FLUHS": "async"}, {}, "DUELINE_STORE_FLUSH"),
        ("", {}, {"delivery.ahed": "5s"}, "delivery.ahead"),
    ],
)
def test_unknown_names_are_errors_that_name_the_nearest(
    text: str, environ: Mapping[str, str], flags: Mapping[str, str], nearest: str
) -> None:
    file = written(Path("x.toml"), text)

    with pytest.raises(InvalidRequest, match=re.escape(f"did you mean {nearest}?")):
        load(file=file, environ=environ, flags=flags)


def test_a_bad_value_is_told_with_its_place() -> None:
    file = written(Path("x.toml"), "[delivery]\nahead = 5")

    with pytest.raises(InvalidRequest) as caught:
        load(file=file)

    assert "file x.toml: delivery.ahead: expected a number with a unit" in caught.value.message
    assert "found 5" in caught.value.message


def test_a_named_file_must_exist_and_be_toml() -> None:
    with pytest.raises(InvalidRequest, match=r"none\.toml: expected a readable file"):
        load(file=Path("none.toml"))
    with pytest.raises(InvalidRequest, match=r"x\.toml: expected TOML"):
        load(file=written(Path("x.toml"), "= ="))


def test_variables_of_other_programs_are_not_ours() -> None:
    assert load(environ={"PATH": "x", "DUELINE_BROKER": "h:1"}).config == Config()


SERVICE_LINKS = {
    "DUELINE_SERVICE_HOST": "10.96.0.17",
    "DUELINE_SERVICE_PORT": "8081",
    "DUELINE_SERVICE_PORT_GRPC": "8081",
    "DUELINE_SERVICE_PORT_NAME_SERVER": "9876",
    "DUELINE_PORT": "tcp://10.96.0.17:8081",
    "DUELINE_PORT_8081_TCP": "tcp://10.96.0.17:8081",
    "DUELINE_PORT_8081_TCP_PROTO": "tcp",
    "DUELINE_PORT_8081_TCP_PORT": "8081",
    "DUELINE_PORT_8081_TCP_ADDR": "10.96.0.17",
    "DUELINE_WEB_SERVICE_HOST": "fd00::17",
    "DUELINE_WEB_PORT": "tcp://[fd00::17]:8080",
}


def test_variables_of_a_kubernetes_service_of_our_name_are_passed_over() -> None:
    assert load(environ=SERVICE_LINKS).config == Config()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DUELINE_PORT", "8081"),
        ("DUELINE_SERVICE_HOST", "everywhere"),
        ("DUELINE_SERVICE_PORT", "grpc"),
        ("DUELINE_SERVICE_HOSTS", "10.96.0.17"),
        ("DUELINE_PORT_8081", "tcp://10.96.0.17:8081"),
        ("DUELINE_PORT_8081_TCP_PROTO", "8081"),
    ],
)
def test_what_only_looks_like_a_services_variable_is_an_error(variable: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=variable):
        load(environ={variable: value})


def test_a_lead_longer_than_ahead_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"delivery\.lead: expected at most delivery\.ahead"):
        load(flags={"delivery.lead": "6s", "delivery.ahead": "5s"})


def test_the_store_has_the_same_options_and_defaults() -> None:
    own = {field.name: field.default for field in dataclasses.fields(StoreSettings)}
    stores = {field.name: field.default for field in dataclasses.fields(StoreOptions)}
    reserve_size_bytes = 64 << 20  # only a broker keeps disk space back
    stores["reserve_size_bytes"] = reserve_size_bytes

    not_settings = ("host", "port", "thresholds")  # thresholds are for tests of the store
    assert own == {name: stores[name] for name in stores if name not in not_settings}
    assert store_options(Config()) == StoreOptions(reserve_size_bytes=reserve_size_bytes)


# --- the reference --------------------------------------------------------------------------------


def test_every_setting_is_documented_as_it_is() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| `(.*?)` \| `(\w+)` \| (.*) \|$", DOCS.read_text(), re.M)

    assert rows == [
        (
            each.name,
            each.kind.show(each.default),
            "DUELINE_" + each.name.upper().replace(".", "_"),
            each.text,
        )
        for each in config.settings()
    ]
