"""The folder for what can be made anew."""

from pathlib import Path

import pytest

from dueline.cache import cache_folder


def test_the_users_folder_goes_before_the_home() -> None:
    both = {"XDG_CACHE_HOME": "/x/cache", "HOME": "/x/home"}

    assert cache_folder(both) == Path("/x/cache/dueline")
    assert cache_folder({"HOME": "/x/home"}) == Path("/x/home/.cache/dueline")


def test_an_environment_without_a_place_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match="HOME"):
        cache_folder({"HOME": ""})
