"""Every setting, once: its name, type, default, and what it is for.

A value comes from the last of these that names it:

    default  <  TOML file  <  environment  <  command line

A setting `flush` of the section `store` is written

    [store]                  in dueline.toml
    flush = "async"
    DUELINE_STORE_FLUSH=async    in the environment
    --set store.flush=async      on the command line; some have a flag of their own

Nothing is guessed: an unknown name is an error that names the nearest known one, and a value of the
wrong kind is an error that says what was expected. Durations and sizes carry their unit (`5s`,
`64MiB`); the fields below hold milliseconds and bytes, and a field's name says which.

The dataclasses are the reference: `docs/configuration.md` is held equal to them by a test. Frozen
values, no I/O but reading the file; nothing here knows the store, which has options of its own.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dueline.access_settings import ACCESS_VARIABLES, AccessSettings
from dueline.errors import InvalidRequest
from dueline.message import BODY_SIZE_MAX_DEFAULT
from dueline.schedule import DEFAULT_LEVELS, DELAY_MAX_MS_DEFAULT
from dueline.sections import QuotaSettings, SendSettings, TlsSettings
from dueline.settings import (
    ADDRESS,
    COUNT,
    DURATION,
    FLAG,
    OPTIONAL_ADDRESS,
    OPTIONAL_DURATION,
    OPTIONAL_TEXT,
    RATIO,
    SIZE,
    TABLE,
    TEXT,
    Setting,
    choice,
    setting,
    settings_of,
)
from dueline.tls import VARIABLES

__all__ = [
    "CONFIG_FILE",
    "SPARK_CONF_VARIABLE",
    "Config",
    "DeliverySettings",
    "GrpcSettings",
    "ListenSettings",
    "Loaded",
    "MessagingSettings",
    "StoreSettings",
    "load",
    "settings",
]

CONFIG_FILE: Final = "dueline.toml"
"""Read from the current folder if it is there and no other file is named."""

_SERVICE: Final = r"DUELINE(_[A-Z0-9_]+)?"
_ON_PORT: Final = rf"{_SERVICE}_PORT_[0-9]+_(TCP|UDP|SCTP)"
_SERVICE_LINKS: Final = tuple(
    (re.compile(name), re.compile(value))
    for name, value in (
        (rf"{_SERVICE}_SERVICE_HOST", r"[0-9a-fA-F.:]+"),
        (rf"{_SERVICE}_SERVICE_PORT(_[A-Z0-9_]+)?", r"[0-9]+"),
        (rf"{_SERVICE}_PORT", r"(tcp|udp|sctp)://\S+:[0-9]+"),
        (_ON_PORT, r"(tcp|udp|sctp)://\S+:[0-9]+"),
        (rf"{_ON_PORT}_PROTO", r"tcp|udp|sctp"),
        (rf"{_ON_PORT}_PORT", r"[0-9]+"),
        (rf"{_ON_PORT}_ADDR", r"[0-9a-fA-F.:]+"),
    )
)
"""Variables that Kubernetes gives to every container beside such a Service, and their values."""
AHEAD_MS_DEFAULT: Final = 30_000
AHEAD_MS_OF_TRANSFORMS: Final = 5_000

_PREFIX: Final = "DUELINE_"
SPARK_CONF_VARIABLE: Final = "DUELINE_SPARK_CONF"
"""Hands `delivery.conf` to the pipeline's process, as JSON."""
_OTHER_VARIABLES: Final = frozenset(
    {
        "DUELINE_CONFIG",
        SPARK_CONF_VARIABLE,
        "DUELINE_BROKER",
        *ACCESS_VARIABLES,
        "DUELINE_NAME_SERVER",
        *VARIABLES,
        "DUELINE_SOAK",
        "DUELINE_INTEROP",
    }
)
"""Variables with our prefix that are no settings: read by the commands and by the tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How the store is laid out and what it accepts (`[store]`)."""

    flush: str = setting(
        "sync",
        choice("sync", "async"),
        "`sync`: a send is answered when it is on disk. `async`: when the operating system has it; "
        "a power cut may then lose the last moments.",
    )
    levels: str = setting(DEFAULT_LEVELS, TEXT, "The delay levels, RocketMQ's `messageDelayLevel`.")
    delay_max_ms: int = setting(
        DELAY_MAX_MS_DEFAULT, DURATION, "The longest delay that is accepted."
    )
    body_size_max: int = setting(
        BODY_SIZE_MAX_DEFAULT, SIZE, "The largest message body; at most 15 MiB."
    )
    retention_ms: int = setting(
        72 * 3_600_000,
        DURATION,
        "How long messages can be read after they became visible, and the outcome of a delayed one "
        "is known.",
    )
    order_wait_ms: int = setting(
        5_000,
        DURATION,
        "How long messages that are due wait for one of their queue that is due earlier and late; "
        "`0s`: not at all.",
    )
    disk_used_ratio_max: float = setting(
        0.90,
        RATIO,
        "When more of the disk is in use, by whatever, sends are refused; reads, cancels and "
        "deliveries go on.",
    )
    delete_early: bool = setting(
        False,
        FLAG,
        "Above `disk_used_ratio_max`, delete the oldest messages before `retention` is over, read "
        "or not, instead of refusing sends.",
    )
    reserve_size_bytes: int = setting(
        64 << 20,
        SIZE,
        "Disk space kept back for what a broker must write when the disk is full: cancels, "
        "acknowledgements, offsets, checkpoints. At most a sixteenth of the disk.",
    )
    commit_segment_size_bytes: int = setting(
        1 << 30, SIZE, "The files of the commit log. Fixed when the store is made."
    )
    delay_segment_size_bytes: int = setting(
        1 << 30, SIZE, "The files of the delay log. Fixed when the store is made."
    )
    queue_file_units: int = setting(300_000, COUNT, "Messages per file of a consume queue.")
    open_units_max: int = setting(
        1 << 18,
        COUNT,
        "Delayed messages that are indexed in memory before a sorted run is written.",
    )
    window_size_bytes_max: int = setting(
        256 << 20, SIZE, "The most bytes of messages, packed, that one delivery window may hold."
    )
    compact_live_ratio: float = setting(
        0.10, RATIO, "A delay-log file with a smaller share of pending messages is rewritten."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenSettings:
    """Where the broker listens (`[listen]`); port 0 takes a free one."""

    flight: str = setting(
        "127.0.0.1:8815",
        ADDRESS,
        "Arrow Flight: Spark, bulk jobs and the commands that look after a broker.",
    )
    name_server: str | None = setting(
        "127.0.0.1:9876", OPTIONAL_ADDRESS, "The name server that RocketMQ 4.x clients ask first."
    )
    remoting: str | None = setting(
        "127.0.0.1:10911", OPTIONAL_ADDRESS, "The broker for RocketMQ 4.x clients."
    )
    grpc: str | None = setting(
        "127.0.0.1:8081", OPTIONAL_ADDRESS, "RocketMQ 5.x clients (gRPC), with or without TLS."
    )
    http: str | None = setting(
        "127.0.0.1:8080",
        OPTIONAL_ADDRESS,
        "Pages, the HTTP API, health and metrics, in a process of its own.",
    )
    advertised: str | None = setting(
        None,
        OPTIONAL_TEXT,
        "The host that clients are told to call. Unset: the one that is listened on; for `0.0.0.0` "
        "the one at which a client reached the name server.",
    )
    insecure: bool = setting(
        False,
        FLAG,
        "Listen on addresses beyond loopback although access control is off: everybody who reaches "
        "a port may do everything.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagingSettings:
    """What clients of the messaging protocols find and may do (`[messaging]`)."""

    cluster: str = setting("DefaultCluster", TEXT, "The cluster's name.")
    auto_create_topics: bool = setting(True, FLAG, "A send to a new topic creates it.")
    auto_create_groups: bool = setting(True, FLAG, "A new consumer group is accepted.")
    connection_count_max: int = setting(10_000, COUNT, "The most connections per port.")
    waiting_count_max: int = setting(
        80_000,
        COUNT,
        "The most pulls and pops of 4.x clients that wait for messages. When they are as many, the "
        "address, and of one address the connection, with the most makes room for the others.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """The port of RocketMQ 5.x clients (`[grpc]`)."""

    invisible_min_ms: int = setting(
        10_000, DURATION, "The shortest time for which a simple consumer may receive a message."
    )
    call_count_max: int = setting(
        20_000,
        COUNT,
        "The most calls and streams at a time. When they are as many, the address, and of one "
        "address the connection, with the most makes room for the others.",
    )
    stream_count_max: int = setting(
        2_048, COUNT, "The most calls and streams of one connection; further ones wait their turn."
    )
    waiting_count_max: int = setting(
        10_000, COUNT, "The most receives and pulls that wait for messages; shared out likewise."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """The Spark pipeline that carries due messages to their topics (`[delivery]`)."""

    enabled: bool = setting(
        True, FLAG, "`dueline serve` runs the pipeline. Off: `dueline deliver` runs it elsewhere."
    )
    master: str = setting("local[*]", TEXT, "The Spark master.")
    transform: str | None = setting(
        None, OPTIONAL_TEXT, "`module:function` that sees messages when they are due."
    )
    checkpoint: str | None = setting(
        None,
        OPTIONAL_TEXT,
        "Folder of Spark's checkpoint: for transforms that keep state. Unset: a temporary one, "
        "since progress is kept by the store.",
    )
    ahead_ms: int | None = setting(
        None,
        OPTIONAL_DURATION,
        "How long before its due time a message may be carried over. Unset: 30s, a runway within "
        "which nobody notices that the pipeline restarts; with a transform, which decides on the "
        "way, 5s. A crowd of 200,000 or more: up to 12 times as long, at most a minute.",
    )
    lead_ms: int = setting(
        1_500, DURATION, "A batch is started when a message is due so soon: what a batch takes."
    )
    shortcut_ms: int = setting(
        500, DURATION, "Shorter delays go straight to the topic (no transform); at most 999ms."
    )
    row_count_max: int = setting(200_000, COUNT, "The most messages in one batch.")
    heap: str = setting("512m", TEXT, "Memory of Spark's Java process.")
    conf: Mapping[str, str] = setting(
        {}, TABLE, "Further settings of Spark, as a table (`name=value,…` in the environment)."
    )

    @property
    def runway_ms(self) -> int:
        """`ahead`, or its default."""
        if self.ahead_ms is not None:
            return self.ahead_ms
        return AHEAD_MS_DEFAULT if self.transform is None else AHEAD_MS_OF_TRANSFORMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings."""

    data: str = setting("dueline-data", TEXT, "The folder of everything that the broker writes.")
    name: str = setting(
        "dueline", TEXT, "The broker's name; shards of one cluster need different ones."
    )
    log_level: str = setting(
        "info", choice("debug", "info", "warning", "error"), "What the broker writes to its log."
    )
    compiled: bool = setting(
        True,
        FLAG,
        "Compiled functions handle messages where Numba is installed. Off: interpreted ones do, "
        "slower and with 100 MB less.",
    )
    store: StoreSettings = StoreSettings()
    listen: ListenSettings = ListenSettings()
    tls: TlsSettings = TlsSettings()  # noqa: RUF009 - frozen, as the others are
    messaging: MessagingSettings = MessagingSettings()
    grpc: GrpcSettings = GrpcSettings()
    access: AccessSettings = AccessSettings()  # noqa: RUF009 - frozen, as the others are
    send: SendSettings = SendSettings()  # noqa: RUF009 - frozen, as the others are
    quotas: QuotaSettings = QuotaSettings()  # noqa: RUF009 - frozen, as the others are
    delivery: DeliverySettings = DeliverySettings()

    def check(self) -> None:
        """Refuse settings that contradict each other.

        Raises:
            InvalidRequest: names them.
        """
        if self.delivery.lead_ms > self.delivery.runway_ms:
            raise InvalidRequest(
                f"delivery.lead: expected at most delivery.ahead ({self.delivery.runway_ms} ms), "
                f"found {self.delivery.lead_ms} ms",
                field="delivery.lead",
            )
        self.tls.check()
        self.access.check(asks_for_certificates=self.tls.asks_for_certificates)
        if not self.data or not self.name:
            raise InvalidRequest("data and name: expected a value, found an empty one")

    @property
    def folder(self) -> Path:
        return Path(self.data)

    @property
    def store_folder(self) -> Path:
        return self.folder / "store"

    @property
    def access_folder(self) -> Path:
        """Where users, their key, the pipeline's token and the audit trail are kept."""
        return self.folder / "access"

    @property
    def tls_folder(self) -> Path:
        """Where a certificate that the broker has made is kept."""
        return self.folder / "tls"

    def client_environment(self) -> dict[str, str]:
        """The variables by which clients on this machine encrypt, as this broker wants them to."""
        return self.tls.client_environment(self.tls_folder, self.listen.advertised)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration, and where each setting's value came from."""

    config: Config
    origins: Mapping[str, str]
    """By full name, such as `store.flush`; settings that are not in here have their default."""

    def origin_of(self, name: str) -> str:
        return self.origins.get(name, "default")


def settings() -> Iterator[Setting]:
    """Every setting, in the order of the reference."""
    yield from settings_of(Config)


def load(
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Loaded:
    """Read the settings from everywhere.

    Args:
        file: a TOML file that must exist; None: `dueline.toml` if there is one.
        flags: values from the command line by full name, as text.

    Raises:
        InvalidRequest: an unknown name or a bad value; says where it stands.
    """
    known = {each.name: each for each in settings()}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, name, value in (
        *_from_file(file, known),
        *_from_environment(environ or {}, known),
        *_from_flags(flags or {}, known),
    ):
        values[name] = value
        origins[name] = origin
    config = _build(values)
    config.check()
    return Loaded(config=config, origins=origins)


def _from_file(path: Path | None, known: Mapping[str, Setting]) -> Iterator[tuple[str, str, Any]]:
    if path is None:
        path = Path(CONFIG_FILE)
        if not path.is_file():
            return
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequest(
            f"configuration file {path}: expected a readable file, found: {error.strerror}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"configuration file {path}: expected TOML, found: {error}") from error
    for name, value in _flat(tables, known):
        where = f"file {path}"
        yield where, name, _known(name, known, where).kind.read(value, where=f"{where}: {name}")


def _flat(tables: Mapping[str, Any], known: Mapping[str, Setting]) -> Iterator[tuple[str, Any]]:
    """Full names; a table below a section is a value if a setting is one."""
    for name, value in tables.items():
        if not isinstance(value, dict):
            yield name, value
            continue
        for inner, inner_value in value.items():
            yield f"{name}.{inner}", inner_value
        if not value and not any(each.startswith(f"{name}.") for each in known):
            yield name, value


def _from_environment(
    environ: Mapping[str, str], known: Mapping[str, Setting]
) -> Iterator[tuple[str, str, Any]]:
    variables = {_variable(name): name for name in known}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX) or variable in _OTHER_VARIABLES:
            continue
        if variable not in variables and _is_service_link(variable, environ[variable]):
            continue
        if variable not in variables:
            raise _unknown("environment variable", variable, list(variables))
        name = variables[variable]
        where = f"environment {variable}"
        yield where, name, known[name].kind.parse(environ[variable], where=where)


def _is_service_link(variable: str, value: str) -> bool:
    """Whether Kubernetes set it, for a Service that is called `dueline` or `dueline-…`.

    >>> _is_service_link("DUELINE_PORT", "tcp://10.0.0.7:8081")
    True
    >>> _is_service_link("DUELINE_PORT", "8081")
    False
    """
    return any(
        name.fullmatch(variable) and shape.fullmatch(value) for name, shape in _SERVICE_LINKS
    )


def _from_flags(
    flags: Mapping[str, str], known: Mapping[str, Setting]
) -> Iterator[tuple[str, str, Any]]:
    for name, text in flags.items():
        where = "command line"
        yield where, name, _known(name, known, where).kind.parse(text, where=f"{where}: {name}")


def _known(name: str, known: Mapping[str, Setting], where: str) -> Setting:
    if name in known:
        return known[name]
    raise _unknown(f"{where}: setting", name, list(known))


def _unknown(what: str, name: str, names: list[str]) -> InvalidRequest:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "`dueline config` lists them all"
    return InvalidRequest(f"{what} {name}: expected a known name; {hint}", found=name)


def _variable(name: str) -> str:
    return _PREFIX + name.replace(".", "_").upper()


def _build(values: Mapping[str, Any]) -> Config:
    changes: dict[str, dict[str, Any]] = {}
    for each in settings():
        if each.name in values:
            changes.setdefault(each.section, {})[each.field] = values[each.name]
    fields = changes.pop("", {})
    for section, inner in changes.items():
        fields[section] = dataclasses.replace(getattr(Config(), section), **inner)
    return Config(**fields)
