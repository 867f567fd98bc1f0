"""The user whom a certificate's subject names."""

from __future__ import annotations

from typing import Any

import pytest

from dueline.broker.access.subject import name_in
from dueline.errors import Unauthenticated


def _certificate(*names: str) -> dict[str, Any]:
    """As `ssl` shows one, with a name of the machine beside it."""
    return {
        "subject": (
            (("countryName", "XK"),),
            (("organizationName", "admin"),),
            *((("commonName", name),) for name in names),
        ),
        "issuer": ((("commonName", "admin"),),),
        "subjectAltName": (("DNS", "admin"), ("email", "admin")),
        "version": 3,
    }


def test_the_common_name_of_the_subject_is_the_user() -> None:
    assert name_in(_certificate("billing")) == "billing"
    both = {"subject": ((("organizationName", "Shop"), ("commonName", "a.b@c-d")),)}
    assert name_in(both) == "a.b@c-d"


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (_certificate(), "expected one common name in its subject, the user's, found 0"),
        (_certificate("clerk", "admin"), "found 2"),
        ({"subject": ((("commonName", "a"), ("commonName", "a")),)}, "found 2"),
        ({"version": 3}, "found 0"),
        (_certificate(""), "expected a name of 1 to 64"),
        (_certificate("billing\0.shop"), "expected a name of 1 to 64"),
        (_certificate("bill ing"), "expected a name of 1 to 64"),
        (_certificate("b" * 65), "expected a name of 1 to 64"),
        (_certificate("b\u00ecller"), "expected a name of 1 to 64"),
        (_certificate("@pipeline"), "not beginning with @"),
    ],
)
def test_a_subject_that_names_no_user_is_refused(certificate: dict[str, Any], words: str) -> None:
    with pytest.raises(Unauthenticated, match=words) as error:
        name_in(certificate)
    assert error.value.reason == "certificate without a user"
