"""The authorizer that the configuration names."""

from __future__ import annotations

from typing import Final

from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.broker.security.authorizer import Authorizer, StandardAuthorizer
from barnabas.broker.security.hooks import make_hook
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.server import AUTHORIZER_CLASS_NAME, STANDARD_AUTHORIZER
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError

_METHODS: Final = ("configure", "authorize", "authorize_by_resource_type")


def auth_helper_of(config: BrokerConfig) -> AuthHelper:
    """The authorizer of authorizer.class.name, which is set, configured.

    Raises InvalidConfigError where it cannot be what the configuration asks for: nothing is left unprotected.
    """
    try:
        authorizer = _authorizer(config[AUTHORIZER_CLASS_NAME])
        authorizer.configure(config)
    except ConfigError as error:
        raise InvalidConfigError([error]) from error
    return AuthHelper(authorizer)


def _authorizer(name: str) -> Authorizer:
    """Raises ConfigError."""
    if name == STANDARD_AUTHORIZER:
        return StandardAuthorizer()
    authorizer: Authorizer = make_hook(AUTHORIZER_CLASS_NAME, name, *_METHODS)
    if not hasattr(authorizer, "generation"):
        raise AUTHORIZER_CLASS_NAME.error(
            name, f"an Authorizer; {type(authorizer).__name__} has no generation"
        )
    return authorizer
