from __future__ import annotations

import pytest

from barnabas.security.errors import SettingError
from barnabas.security.setting_values import flag_of, number_of


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("300", 300)])
def test_a_number(text: str, number: int) -> None:
    assert number_of({"n": text}, "n", 5, 300) == number


def test_a_number_that_is_not_set() -> None:
    assert number_of({}, "n", 5, 300) == 5


@pytest.mark.parametrize("text", ["", "-1", "301", "1.5", "٣", "0" * 10_000])
def test_what_is_no_number_within_the_bounds(text: str) -> None:
    with pytest.raises(SettingError, match=r"^n=.* must be a number from 0 to 300$"):
        number_of({"n": text}, "n", 5, 300)


@pytest.mark.parametrize(("values", "flag"), [({}, False), ({"f": "TRUE"}, True), ({"f": "false"}, False)])
def test_a_flag(values: dict[str, str], flag: bool) -> None:
    assert flag_of(values, "f") is flag


def test_what_is_no_flag() -> None:
    with pytest.raises(SettingError, match=r"^f=yes must be true or false$"):
        flag_of({"f": "yes"}, "f")
