"""The user's transform: found by its name, and refused in words if it is none."""

from __future__ import annotations

import pytest

from dueline.errors import InvalidRequest, Unavailable
from dueline.spark.transform import apply, load


class Holder:
    """A function may be inside of something."""

    @staticmethod
    def inside(due: object) -> object:
        return due


NOT_A_FUNCTION = 7


def test_a_function_is_found_by_module_and_name() -> None:
    assert load(f"{__name__}:Holder.inside") is Holder.inside


@pytest.mark.parametrize("entry", ["", "module", ":function", "module:", ":"])
def test_another_form_is_refused(entry: str) -> None:
    with pytest.raises(InvalidRequest, match=f"expected module:function, found '{entry}'"):
        load(entry)


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("no_such_module:f", "No module named 'no_such_module'"),
        (f"{__name__}:nothing", "has no attribute 'nothing'"),
        (f"{__name__}:Holder.nothing", "has no attribute 'nothing'"),
    ],
)
def test_what_is_not_there_is_told_with_a_hint(entry: str, found: str) -> None:
    with pytest.raises(InvalidRequest, match="PYTHONPATH") as caught:
        load(entry)

    assert found in caught.value.message
    assert f"transform {entry}" in caught.value.message


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="expected a function, found 7"):
        load(f"{__name__}:NOT_A_FUNCTION")


@pytest.mark.parametrize("result", [None, "rows", 7])
def test_a_result_that_is_no_stream_is_refused(result: object) -> None:
    with pytest.raises(InvalidRequest, match=f"DataFrame made .* found {type(result).__name__}"):
        apply(lambda due: result, None)  # type: ignore[arg-type, return-value]


def test_what_it_raises_is_tried_again_later_and_told_in_one_line() -> None:
    """What it reads may not be there yet: that is no mistake of the set-up."""

    def fail(due: object) -> object:
        raise ValueError("no table\nwith a long story")

    with pytest.raises(Unavailable, match=r"transform: it failed: .*no table") as caught:
        apply(fail, None)  # type: ignore[arg-type]

    assert "\n" not in caught.value.message
    assert isinstance(caught.value.__cause__, ValueError)
