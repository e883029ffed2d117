"""DelegationTokens: the secrets of the delegation tokens in the metadata, and the credentials of logins by them.

    HMAC     := HMAC-SHA-512(delegation.token.secret.key, token id)
    password := base64(HMAC), of a login by SCRAM with the token's id as the user and the extension tokenauth=true

The metadata have a token's id, owner and times, and not its HMAC: every broker that has the key computes it. SCRAM's
keys need thousands of HMACs a token. They are computed when the first client logs in by it, in a thread, and kept
until the token changes or is removed.

Source: org.apache.kafka.security.DelegationTokenManager, DelegationTokenCache,
org.apache.kafka.metadata.publisher.DelegationTokenPublisher (KIP-48).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.request import USER
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord
from barnabas.protocol.messages.security import HASH_NAMES, MIN_ITERATIONS, ScramMechanism

if TYPE_CHECKING:
    from barnabas.broker.security.sasl.scram import Credential

_HASH: Final = "sha512"
_OF_USERS: Final = f"{USER}:"

Tokens = Mapping[str, DelegationTokenRecord]


def end_ms(token: DelegationTokenRecord) -> int:
    """Until when anybody may log in by the token or renew it, in ms since 1970."""
    return min(token.max_timestamp, token.expiration_timestamp)


class _Keys(NamedTuple):
    """What SCRAM keeps of a password under a salt."""

    salt: bytes
    stored_key: bytes
    server_key: bytes


class DelegationTokens:
    """The tokens of one broker. Lives on the event loop, but for `credential`, which may run in any thread.

    Without a key (None or empty) there are no tokens: nothing is looked up, and `is_enabled` is False.
    """

    def __init__(self, secret_key: str | None, now_ms: Callable[[], int]) -> None:
        """`now_ms` is the time of day."""
        self._secret = (secret_key or "").encode()
        self.now_ms = now_ms
        self._tokens: Tokens = MappingProxyType({})
        self._keys: dict[tuple[str, ScramMechanism], _Keys] = {}
        self._ids: dict[bytes, str] | None = None
        self._blind = b""

    @property
    def is_enabled(self) -> bool:
        return bool(self._secret)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follows the metadata: a publisher."""
        self._tokens = image.tokens
        for token_id in delta.token_changes:
            for mechanism in HASH_NAMES:
                self._keys.pop((token_id, ScramMechanism(mechanism)), None)
            if self._ids is not None:
                self._index(self._ids, token_id)

    # ---- secrets

    def hmac(self, token_id: str) -> bytes:
        """The secret of a token with this id, whether or not there is one."""
        assert self._secret, "delegation tokens are off"
        import hmac  # loads much of OpenSSL

        return hmac.digest(self._secret, token_id.encode(), _HASH)

    def id_of(self, secret: bytes) -> str | None:
        """The id of the token with this HMAC; None for an unknown one.

        Compares digests under a key of this process, so that the time taken tells nothing about the HMACs of tokens.
        """
        if self._ids is None:
            self._blind = os.urandom(32)
            self._ids = {}
            for token_id in self._tokens:
                self._index(self._ids, token_id)
        return self._ids.get(self._blinded(secret))

    def _index(self, ids: dict[bytes, str], token_id: str) -> None:
        if not self._secret:
            return
        key = self._blinded(self.hmac(token_id))
        if token_id in self._tokens:
            ids[key] = token_id
        else:
            ids.pop(key, None)

    def _blinded(self, secret: bytes) -> bytes:
        import hmac

        return hmac.digest(self._blind, secret, "sha256")

    # ---- logins

    def is_ready(self, token_id: str, mechanism: ScramMechanism) -> bool:
        """Whether `credential` need not compute keys."""
        return (token_id, mechanism) in self._keys or self._usable(token_id) is None

    def credential(self, token_id: str, mechanism: ScramMechanism, salt: bytes) -> Credential | None:
        """The credential by which a client logs in with a token; None for one that is unknown or has expired.

        `salt` is always the same for a token and mechanism. Takes milliseconds unless `is_ready`.
        """
        token = self._usable(token_id)
        if token is None:
            return None
        from barnabas.broker.security.sasl.scram import Credential

        keys = self._keys.get((token_id, mechanism))
        if keys is None or keys.salt != salt:
            keys = self._compute(token_id, mechanism, salt)
        return Credential(
            token.owner.removeprefix(_OF_USERS),
            salt,
            MIN_ITERATIONS,
            keys.stored_key,
            keys.server_key,
            token_authenticated=True,
            expires_ms=end_ms(token),
        )

    def _usable(self, token_id: str) -> DelegationTokenRecord | None:
        """A token that has not expired. Principals of other types than User do not log in: they would be the user of
        that name.
        """
        token = self._tokens.get(token_id)
        if not self._secret or token is None or not token.owner.startswith(_OF_USERS):
            return None
        return None if end_ms(token) < self.now_ms() else token

    def _compute(self, token_id: str, mechanism: ScramMechanism, salt: bytes) -> _Keys:
        from barnabas.security import scram

        digest = HASH_NAMES[mechanism]
        password = base64.b64encode(self.hmac(token_id))
        salted = scram.salted_password(digest, password, salt, MIN_ITERATIONS)
        stored = scram.stored_key(digest, scram.client_key(digest, salted))
        keys = self._keys[token_id, mechanism] = _Keys(salt, stored, scram.server_key(digest, salted))
        if token_id not in self._tokens:  # removed meanwhile: `apply` may have run before the line above
            self._keys.pop((token_id, mechanism), None)
        return keys
