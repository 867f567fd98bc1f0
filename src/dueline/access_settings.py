"""The settings of access control, and the variables that go with them.

A section of `dueline.config`, by itself since it has more to say than its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dueline.credentials import TOKEN, TOKEN_FILE
from dueline.errors import InvalidRequest
from dueline.settings import DURATION, FLAG, OPTIONAL_TEXT, SIZE, setting

__all__ = [
    "ACCESS_VARIABLES",
    "PIPELINE_TOKEN_FILE",
    "SUPER_USER_VARIABLE",
    "AccessSettings",
    "pipeline_environment",
    "web_environment",
]

SUPER_USER_VARIABLE: Final = "DUELINE_SUPER_USER"
"""The first super user, as name:secret."""
ACCESS_VARIABLES: Final = (SUPER_USER_VARIABLE, TOKEN, TOKEN_FILE)
PIPELINE_TOKEN_FILE: Final = "pipeline.token"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Who may do what (`[access]`); see docs/security.md."""

    enabled: bool = setting(
        False,
        FLAG,
        "Every request on every port must come from a user who has the right to make it.",
    )
    super_user_file: str | None = setting(
        None,
        OPTIONAL_TEXT,
        "A file with `name:secret` of the first super user; else the variable "
        "`DUELINE_SUPER_USER`. Read at the start while no super user is enabled.",
    )
    key_file: str | None = setting(
        None,
        OPTIONAL_TEXT,
        "The key that secrets are sealed with. Unset: `access/users.key` in the data folder, "
        "made when it is first needed.",
    )
    signature_age_max_ms: int = setting(
        54_000_000,
        DURATION,
        "How far the time in a 5.x client's signature may be from the broker's. Clients for Java, "
        "Go and Python write their local time as if it were UTC: the default lets every time zone "
        "in; `5m` where all clients run in UTC; `0s`: any time.",
    )
    certificate_users: bool = setting(
        False,
        FLAG,
        "A client that shows a certificate and signs nothing is the user whose name is the common "
        "name of the certificate's subject. Needs `tls.client_ca`. Not on Flight and HTTP.",
    )
    audit_size_bytes_max: int = setting(
        64 << 20, SIZE, "The most disk space of the audit trail; the oldest lines go first."
    )

    def check(self, *, asks_for_certificates: bool) -> None:
        """Refuse settings that contradict others.

        Raises:
            InvalidRequest: names them.
        """
        if self.certificate_users and not asks_for_certificates:
            raise InvalidRequest(
                "access.certificate_users: expected tls.client_ca beside it and TLS that is not "
                "disabled, found that no client is asked for a certificate",
                field="access.certificate_users",
            )


def pipeline_environment(
    settings: AccessSettings, folder: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the broker's own pipeline: it is itself, and has nobody's secrets."""
    found = {name: value for name, value in environ.items() if name not in ACCESS_VARIABLES}
    if settings.enabled:
        found[TOKEN_FILE] = str((folder / PIPELINE_TOKEN_FILE).absolute())
    return found


def web_environment(
    settings: AccessSettings, folder: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the web process, which asks if the broker is ready: as the user whom the
    operator names, or else as the pipeline."""
    found = pipeline_environment(settings, folder, environ)
    given = {name: environ[name] for name in (TOKEN, TOKEN_FILE) if name in environ}
    if given:
        found.pop(TOKEN_FILE, None)
    return found | given
