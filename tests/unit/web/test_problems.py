import pytest

from dueline import errors
from dueline.errors import BrokerError
from dueline.web.problems import PROBLEM_STATUSES, problem_of, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidRequest("x"), 400),
        (errors.NotFound("x"), 404),
        (errors.LimitExceeded("x"), 429),
        (errors.Unavailable("x"), 503),
        (errors.Unanswered("x"), 504),
        (errors.OutcomeUnknown("x"), 502),
        (errors.StoreFailed("x"), 502),
        (errors.StoreClosed("x"), 503),
        (BrokerError("x"), 502),
    ],
)
def test_an_error_has_the_status_of_its_nearest_kind(error: BrokerError, status: int) -> None:
    assert status_of(error) == status
    assert status in PROBLEM_STATUSES


def test_a_problem_names_its_field_if_there_is_one() -> None:
    assert problem_of(errors.InvalidRequest("x", field="topic")).field == "topic"
    assert problem_of(errors.InvalidRequest("x", field=7)).field is None
