from __future__ import annotations

from barnabas.config.catalogue import BROKER_KEYS
from barnabas.security import token_settings
from barnabas.security.token_settings import TOKEN_LOGIN_KEYS, URLENCODE


def test_each_key_is_one_of_kafka() -> None:
    """A broker has all of them but one, which clients alone have."""
    assert [key for key in TOKEN_LOGIN_KEYS if key not in BROKER_KEYS] == [URLENCODE]


def test_no_key_stands_twice() -> None:
    assert len(set(TOKEN_LOGIN_KEYS)) == len(TOKEN_LOGIN_KEYS)


def test_each_class_is_in_the_package_of_kafka() -> None:
    classes = [name for name in vars(token_settings) if name.endswith(("_HANDLER", "_MODULE"))]
    assert len(classes) == 5 + 1  # with CALLBACK_HANDLER, which is a key
    for name in classes:
        assert name == "CALLBACK_HANDLER" or getattr(token_settings, name).startswith(token_settings.PACKAGE)
