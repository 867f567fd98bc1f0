"""What all tests share: how hard the random tests try, and where a test stops being allowed.

`DUELINE_SOAK=1` (`make soak`) runs the tests marked `soak` and gives every property test fifty
times the examples. A failing example prints the line that repeats it.
"""

import os

import hypothesis
import pytest

IS_SOAK = os.environ.get("DUELINE_SOAK") == "1"

# No deadline per example: the machine may be busy, and a test that fails then says nothing.
hypothesis.settings.register_profile("normal", deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "soak",
    deadline=None,
    print_blob=True,
    max_examples=5000,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("soak" if IS_SOAK else "normal")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if IS_SOAK:
        return
    skip = pytest.mark.skip(reason="a long campaign; run it with `make soak`")
    for item in items:
        if "soak" in item.keywords:
            item.add_marker(skip)
