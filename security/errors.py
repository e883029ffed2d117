"""The errors of this package.

A setting that is wrong, a store that cannot be read, a login that is rejected, an identity provider that does not
answer.
"""

from __future__ import annotations


class SettingError(ValueError):
    """`key` is the name of the setting, without a listener's prefix; `value` what it is, unless that is a secret.

    `requirement` says what would be right, as the rest of a sentence: "must be ..."; `phrase` is Kafka's own message,
    where it has one.
    """

    def __init__(self, key: str, value: str | None, requirement: str, *, phrase: str | None = None) -> None:
        self.key = key
        self.value = value
        self.requirement = requirement
        self.phrase = phrase
        setting = key if value is None else f"{key}={value}"
        super().__init__(f"{setting} {requirement}")


class StoreError(ValueError):
    """The content of a store is not what its format asks for, or the password is wrong. Contains no secret."""


class SaslClientError(ValueError):
    """The server rejects the login, or does not answer as its mechanism asks for. Contains no secret."""


class ProviderError(ValueError):
    """An identity provider does not answer as it should. Contains no secret. `is_final`: to ask again is no use."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final
