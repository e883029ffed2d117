"""Where settings come from."""

from __future__ import annotations

import pytest

from barnabas.config.layers import (
    InvalidConfigError,
    Source,
    from_environment,
    from_file,
    from_overrides,
    from_profile,
)


def test_a_setting_knows_its_place() -> None:
    (setting,) = from_file("my.properties", b"\na=1")
    assert (setting.key, setting.text, setting.source, setting.place) == (
        "a",
        "1",
        Source.FILE,
        "my.properties line 2",
    )
    assert repr(setting) == "<Setting a from my.properties line 2>"
    (setting,) = from_environment({"KAFKA_A": "1"})
    assert (setting.source, setting.place) == (Source.ENVIRONMENT, "environment variable KAFKA_A")
    (setting,) = from_overrides([" a = b=c"])
    assert (setting.key, setting.text, setting.place) == ("a", " b=c", "--override")
    first = next(from_profile("dev"))
    assert (first.key, first.text, first.source, first.place) == (
        "barnabas.profile",
        "dev",
        Source.PROFILE,
        "profile dev",
    )


def test_the_layers_are_in_order() -> None:
    assert sorted(Source) == [
        Source.DEFAULT,
        Source.PROFILE,
        Source.FILE,
        Source.ENVIRONMENT,
        Source.OVERRIDE,
        Source.DYNAMIC_DEFAULT,
        Source.DYNAMIC_BROKER,
    ]
    assert [source for source in Source if source.is_dynamic] == [
        Source.DYNAMIC_DEFAULT,
        Source.DYNAMIC_BROKER,
    ]


def test_an_invalid_file_is_an_error_with_its_line() -> None:
    with pytest.raises(InvalidConfigError, match=r"^f: line 2 .*four hexadecimal digits"):
        list(from_file("f", b"a=1\nb=\\u12"))


@pytest.mark.parametrize("override", ["a", "=1", ""])
def test_an_override_is_a_key_and_a_value(override: str) -> None:
    with pytest.raises(InvalidConfigError, match="is not key=value"):
        list(from_overrides([override]))
