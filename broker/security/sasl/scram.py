"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84): the client proves that it knows a password, and never sends it.

    client: n,,n=alice,r=<nonce>                          client-first
    broker: r=<nonce><more>,s=<salt>,i=<iterations>       server-first
    client: c=biws,r=<nonce><more>,p=<proof>              client-final
    broker: v=<signature>                                 server-final

Credentials are those of the metadata: salt, iterations, StoredKey and ServerKey, no password. The broker computes two
HMACs a login; only clients compute the many of PBKDF2, but for the first login by a delegation token (extension
tokenauth=true, KIP-48), whose credential is made of the token's secret.

A user without credentials gets as far as one with them, with a salt that its name and a secret of this broker
determine, and fails in the last round by the same words: so nobody learns from a login which users exist. (Kafka
fails such a login in its first round.) What is rejected, as the RFC demands: channel binding (gs2 header `p`, `y`), a
mandatory extension (`m=`), a channel binding in client-final other than the header of client-first, another nonce, a
proof of another length.

Source: org.apache.kafka.common.security.scram.internals.ScramSaslServer, ScramMessages, ScramFormatter.
"""

from __future__ import annotations

import os
import re
import secrets
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.broker.security.sasl.server import Login, SaslAuthenticationError, SaslError, WouldBlockError
from barnabas.protocol.messages.cluster_records import UserScramCredentialRecord
from barnabas.protocol.messages.security import HASH_NAMES, MIN_ITERATIONS, ScramMechanism
from barnabas.security.scram import DIGEST_SIZES, hmac_of, is_proof

BY_NAME: Final = {
    mechanism.label: mechanism for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
}
"""The mechanisms by the names that clients ask for."""

SIZES: Final = {mechanism: DIGEST_SIZES[HASH_NAMES[mechanism]] for mechanism in BY_NAME.values()}
"""Of the keys of each mechanism, in bytes."""
_NO_KEYS: Final = {mechanism: bytes(size) for mechanism, size in SIZES.items()}

TOKEN_AUTH: Final = "tokenauth"
"""The extension of a login by delegation token (KIP-48)."""

NONCE_BYTES: Final = 20
MOCK_SALT_BYTES: Final = 20
"""As many as `--add-scram` makes."""

MAX_MESSAGE_BYTES: Final = 4096
"""A longer one is no login, and would keep the event loop busy. (Kafka takes sasl.server.max.receive.size.)"""

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"  # all ASCII but NUL and the comma
_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class Credential(NamedTuple):
    """What the broker keeps of a password. `user` is who logs in by it: the owner, where it is a token's."""

    user: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    token_authenticated: bool = False
    expires_ms: int | None = None


ScramRecords = Mapping[tuple[str, int], UserScramCredentialRecord]


class TokenCredentials(Protocol):
    """Credentials of delegation tokens, by their ids: DelegationTokens."""

    def is_ready(self, token_id: str, mechanism: ScramMechanism) -> bool:
        """Whether `credential` answers at once; else it takes milliseconds, and has to run in a thread."""

    def credential(self, token_id: str, mechanism: ScramMechanism, salt: bytes) -> Credential | None:
        """The credential of a token under a salt, which is always the same; None where it lets nobody in."""


class ScramCredentials:
    """The credentials of the metadata, and mock ones for users that have none.

    Made before the metadata are read, and usable once `attach` was called: before that no login succeeds.
    """

    def __init__(self) -> None:
        self._records: Callable[[], ScramRecords] = dict
        self._secret = secrets.token_bytes(32)
        self._nobodys_keys = {mechanism: secrets.token_bytes(SIZES[mechanism]) for mechanism in SIZES}
        self._tokens: TokenCredentials | None = None

    def attach(
        self, records: Callable[[], ScramRecords], secret: bytes, tokens: TokenCredentials | None = None
    ) -> None:
        """`records` returns the newest credentials; `secret` is the same at every start of this broker."""
        self._records = records
        self._secret = secret
        self._tokens = tokens

    def find(self, user: str, mechanism: ScramMechanism) -> Credential | None:
        record = self._records().get((user, mechanism))
        if record is None or record.iterations < MIN_ITERATIONS:
            return None
        return Credential(user, record.salt, record.iterations, record.stored_key, record.server_key)

    def is_token_ready(self, token_id: str, mechanism: ScramMechanism) -> bool:
        """Whether `find_token` answers at once."""
        return self._tokens is None or self._tokens.is_ready(token_id, mechanism)

    def find_token(self, token_id: str, mechanism: ScramMechanism) -> Credential | None:
        """The salt is that of `mock`: it does not tell whether there is such a token, or that it changes."""
        if self._tokens is None:
            return None
        return self._tokens.credential(token_id, mechanism, self._mock_salt(token_id, mechanism))

    def mock(self, user: str, mechanism: ScramMechanism) -> Credential:
        """What looks like a credential of this user from outside, always the same, and lets nobody in: its StoredKey
        is that of no ClientKey, and never leaves this broker.
        """
        salt = self._mock_salt(user, mechanism)
        return Credential(user, salt, MIN_ITERATIONS, self._nobodys_keys[mechanism], _NO_KEYS[mechanism])

    def _mock_salt(self, user: str, mechanism: ScramMechanism) -> bytes:
        salt = hmac_of("sha256", self._secret, f"{mechanism.label}\0{user}".encode())
        return salt[:MOCK_SALT_BYTES]


class ClientFirst(NamedTuple):
    """The parts of the first message of a client. `bare` is the part that the proof covers."""

    header: str
    bare: str
    authorization_id: str
    name: str
    nonce: str
    extensions: Mapping[str, str]


class ClientFinal(NamedTuple):
    """The parts of the last message of a client."""

    without_proof: str
    channel_binding: bytes
    nonce: str
    proof: bytes


def parse_client_first(token: bytes) -> ClientFirst:
    """Raises SaslError."""
    found = _CLIENT_FIRST.fullmatch(_text(token))
    if found is None:
        raise SaslError("the first message of SCRAM is not of its form")
    header, authorization_id, bare, name, nonce, extensions = found.groups()
    pairs = [pair.partition("=") for pair in extensions.split(",")[1:]] if extensions else ()
    return ClientFirst(
        header,
        bare,
        authorization_id or "",
        name.replace("=2C", ",").replace("=3D", "=") if "=" in name else name,
        nonce,
        {name: value for name, _, value in pairs},
    )


def parse_client_final(token: bytes) -> ClientFinal:
    """Raises SaslError."""
    found = _CLIENT_FINAL.fullmatch(_text(token))
    if found is None:
        raise SaslError("the last message of SCRAM is not of its form")
    without_proof, binding, nonce, proof = found.groups()
    return ClientFinal(without_proof, a2b_base64(binding), nonce, a2b_base64(proof))


def _text(token: bytes) -> str:
    """The characters are ASCII; user names beyond it do not fit the form of Kafka's messages, which is kept to."""
    if len(token) > MAX_MESSAGE_BYTES:
        raise SaslError(f"a message of SCRAM has more than {MAX_MESSAGE_BYTES} bytes")
    try:
        return token.decode("ascii")
    except UnicodeDecodeError:
        raise SaslError("a message of SCRAM has other characters than ASCII") from None


def _base64(data: bytes) -> bytes:
    return b2a_base64(data, newline=False)


class ScramServer:
    """One login by SCRAM."""

    def __init__(self, mechanism: ScramMechanism, credentials: ScramCredentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._hash = HASH_NAMES[mechanism]
        self._first: ClientFirst | None = None
        self._server_first = ""
        self._nonce = ""
        self._credential: Credential | None = None
        self._is_mock = False
        self.blocks = False
        self.user: str | None = None
        self.login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Raises WouldBlockError for the first login by a delegation token, whose keys have to be computed."""
        return self._begin(token) if self._first is None else self._finish(self._first, token)

    def _begin(self, token: bytes) -> bytes:
        first = parse_client_first(token)
        self.user = first.name
        by_token = bool(first.extensions) and first.extensions.get(TOKEN_AUTH, "").lower() == "true"
        if by_token and not self.blocks and not self._credentials.is_token_ready(first.name, self._mechanism):
            self.blocks = True
            raise WouldBlockError
        find = self._credentials.find_token if by_token else self._credentials.find
        credential = find(first.name, self._mechanism)
        if first.authorization_id not in ("", first.name):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        mock = self._credentials.mock(first.name, self._mechanism)  # for all, so that all take as long
        self._is_mock = credential is None
        self._credential = credential or mock
        self._first = first
        self.blocks = False
        self._nonce = first.nonce + _base64(os.urandom(NONCE_BYTES)).decode()
        salt = _base64(self._credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        return self._server_first.encode()

    def _finish(self, first: ClientFirst, token: bytes) -> bytes:
        credential = self._credential
        assert credential is not None
        final = parse_client_final(token)
        if final.nonce != self._nonce:
            raise SaslError("the last message of SCRAM has another nonce")
        if final.channel_binding != first.header.encode():
            raise SaslError("the last message of SCRAM has another channel binding than the first")
        signed = f"{first.bare},{self._server_first},{final.without_proof}".encode()
        is_known = is_proof(self._hash, credential.stored_key, signed, final.proof)
        signature = hmac_of(self._hash, credential.server_key, signed)
        if self._is_mock or not is_known:
            # The log may say which; the client may not know.
            raise SaslError("the user has no credential" if self._is_mock else "the password is wrong")
        self.login = Login(
            credential.user,
            token_authenticated=credential.token_authenticated,
            expires_ms=credential.expires_ms,
        )
        self._credential = None
        return b"v=" + _base64(signature)


class ScramMechanismOfListener:
    """One of the two mechanisms, of one listener."""

    def __init__(self, name: str, credentials: ScramCredentials, max_reauth_ms: int = 0) -> None:
        self.name = name
        self.max_reauth_ms = max_reauth_ms
        self._mechanism = BY_NAME[name]
        self._credentials = credentials

    def new_server(self) -> ScramServer:
        return ScramServer(self._mechanism, self._credentials)
