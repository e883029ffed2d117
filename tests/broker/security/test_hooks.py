"""Classes of a user's own: what is not there refuses the start."""

from __future__ import annotations

import pytest

from barnabas.broker.security.hooks import load_hook
from barnabas.config.catalogue.server import AUTHORIZER_CLASS_NAME
from barnabas.config.keys import ConfigError
from tests.broker.security import hooks


def test_a_class_is_found_by_its_module_and_name() -> None:
    assert load_hook(AUTHORIZER_CLASS_NAME, "python:tests.broker.security.hooks:OnlyHost") is hooks.OnlyHost


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tests.broker.security.hooks:OnlyHost", "must be python:module:Class"),
        ("python:hooks", "must be python:module:Class"),
        ("python::OnlyHost", "must be python:module:Class"),
        ("python:there.is.no:Module", "ModuleNotFoundError: No module named 'there'"),
        ("python:tests.broker.security.hooks:Nothing", "AttributeError: module"),
        ("python:tests.broker.security.hooks:NOT_A_CLASS", "NOT_A_CLASS in tests.broker.security.hooks is 5"),
    ],
)
def test_what_cannot_be_loaded_names_the_key_and_the_reason(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_hook(AUTHORIZER_CLASS_NAME, text)
    assert str(caught.value).startswith(f"authorizer.class.name={text} must be ")
    assert why in str(caught.value)
