"""What tests of logins need: the messages of SASL as a client makes them, and the listeners that ask for them.

Written without the broker's own mechanisms, so that their mistakes do not hide here.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping

from barnabas.protocol.api_keys import ApiKey, request_header_version
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.schema import Message

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


def request(message: Message, version: int, number: int = 7, client_id: str | None = "raw") -> bytes:
    """A request without its size."""
    assert message.api_key is not None
    header = RequestHeader(
        request_api_key=message.api_key,
        request_api_version=version,
        correlation_id=number,
        client_id=client_id,
    )
    key = ApiKey(message.api_key)
    return encode(header, request_header_version(key, version)) + encode(message, version)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def plain_token(user: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()


def plain_entry(**passwords: str) -> str:
    """The value of sasl.jaas.config for PLAIN with these users."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    return f"{PLAIN_MODULE} required {users};"


def listener_settings(listener: str, mechanisms: Mapping[str, str], **more: str) -> dict[str, str]:
    """The keys of a listener whose mechanisms have these JAAS entries; more keys with underscores for dots."""
    prefix = f"listener.name.{listener.lower()}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": ",".join(mechanisms),
        **{f"{prefix}.{name.lower()}.sasl.jaas.config": entry for name, entry in mechanisms.items()},
        **{f"{prefix}.{key.replace('_', '.')}": value for key, value in more.items()},
    }


class ScramClient:
    """The client's side of a login by SCRAM (RFC 5802)."""

    def __init__(
        self, mechanism: str, user: str, password: str, *, header: str = "n,,", extensions: str = ""
    ) -> None:
        self.hash = HASHES[mechanism]
        self.header = header
        self.nonce = "rOprNGfwEbeRWgbNEkqO"
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self.nonce}{extensions}"
        self.password = password.encode()
        self.server_signature = b""

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, server_first: bytes) -> bytes:
        text = server_first.decode()
        fields = dict(part.split("=", 1) for part in text.split(","))
        salted = hashlib.pbkdf2_hmac(self.hash, self.password, b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", self.hash)
        binding = b64encode(self.header.encode()).decode()
        without_proof = f"c={binding},r={fields['r']}"
        signed = f"{self.bare},{text},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self.hash, client_key).digest(), signed, self.hash)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self.server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self.hash), signed, self.hash)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def trusts(self, server_final: bytes) -> bool:
        """Whether the broker has shown that it knows the user's credential."""
        return server_final == b"v=" + b64encode(self.server_signature)
