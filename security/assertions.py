"""Assertions: signed statements by which a client proves to an identity provider who it is, in place of a secret.

An assertion is a JSON Web Token that the client signs by a private key of its own (RFC 7523). It comes from a file
(sasl.oauthbearer.assertion.file, in which another program renews it), or is made anew for each request:

| part of a token | first | over it | over that |
| --- | --- | --- | --- |
| header | | `header` of the template file | `alg`, and `typ` JWT |
| claims | aud, iss and sub of ...claim.* | `payload` of the template file | iat, exp, nbf, and jti if asked for |

The template is a JSON object with the objects `header` and `payload`, either of which may be missing. The private key
is PEM (PKCS#8), encrypted if a passphrase is set. All files are read anew for each assertion, so that keys can be
replaced while a client runs.

Source: org.apache.kafka.common.security.oauthbearer.internals.secured.assertion.AssertionSupplierFactory,
DefaultAssertionCreator, FileAssertionCreator, LayeredAssertionJwtTemplate, AssertionUtils.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.security.errors import ProviderError, SettingError
from barnabas.security.identity_provider import MAX_BYTES
from barnabas.security.json_web_tokens import TokenError, encoded, unverified_parts
from barnabas.security.setting_values import flag_of, number_of
from barnabas.security.strict_json import JsonError, parse_object
from barnabas.security.token_settings import (
    ASSERTION_ALGORITHM,
    ASSERTION_AUD,
    ASSERTION_EXP_SECONDS,
    ASSERTION_FILE,
    ASSERTION_ISS,
    ASSERTION_JTI,
    ASSERTION_KEY_FILE,
    ASSERTION_NBF_SECONDS,
    ASSERTION_PASSPHRASE,
    ASSERTION_SUB,
    ASSERTION_TEMPLATE_FILE,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_ALGORITHMS: Final = ("RS256", "ES256")
_PKCS8: Final = (b"-----BEGIN PRIVATE KEY-----", b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
_MAX_EXP_S: Final = 86_400
_MAX_NBF_S: Final = 3_600


class NoAssertionError(ProviderError):
    """There is no assertion: a file cannot be read, or has not in it what it should. Contains no part of a file."""

    def __init__(self, key: str, text: str, requirement: str) -> None:
        super().__init__(f"{key}={text} {requirement}", is_final=True)
        self.key = key
        self.text = text
        self.requirement = requirement


class AssertionTimes(NamedTuple):
    """How long an assertion holds, and since when, in seconds from now."""

    exp_s: int = 300
    nbf_s: int = 60


class AssertionMaker:
    """Makes assertions, or reads them. Shows neither its passphrase nor a key. Any thread may call it."""

    def __init__(self, values: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        """`values` are a client's properties, by names without a prefix. Raises SettingError; the files are looked at
        first when an assertion is made, but for whether they can be read.
        """
        self._values = values
        self._now_ms = now_ms
        self._file = values.get(ASSERTION_FILE, "")
        if self._file:
            self._check_file(ASSERTION_FILE)
            return
        self._algorithm = self._read_algorithm()
        self._check_file(ASSERTION_KEY_FILE)
        self._key_file = values[ASSERTION_KEY_FILE]
        self._passphrase = self._text(ASSERTION_PASSPHRASE, is_secret=True)
        self._template = self._text(ASSERTION_TEMPLATE_FILE)
        if self._template is not None:
            self._check_file(ASSERTION_TEMPLATE_FILE)
        named = {"aud": ASSERTION_AUD, "iss": ASSERTION_ISS, "sub": ASSERTION_SUB}
        texts = {claim: self._text(key) for claim, key in named.items()}
        self._claims = {claim: text for claim, text in texts.items() if text is not None}
        self._times = AssertionTimes(
            number_of(values, ASSERTION_EXP_SECONDS, AssertionTimes().exp_s, _MAX_EXP_S),
            number_of(values, ASSERTION_NBF_SECONDS, AssertionTimes().nbf_s, _MAX_NBF_S),
        )
        self._has_id = flag_of(values, ASSERTION_JTI)

    def make(self) -> str:
        """An assertion; reads files. Raises ProviderError."""
        if self._file:
            return _ready(self._file)
        header: dict[str, Any] = {}
        claims: dict[str, Any] = dict(self._claims)
        if self._template is not None:
            more = _template(self._template)
            header |= more["header"]
            claims |= more["payload"]
        header |= {"alg": self._algorithm, "typ": "JWT"}
        claims |= self._moments()
        return _signed(header, claims, self._algorithm.upper(), self._key())

    def _moments(self) -> dict[str, Any]:
        now_s = self._now_ms() // 1000
        found: dict[str, Any] = {
            "iat": now_s,
            "exp": now_s + self._times.exp_s,
            "nbf": now_s - self._times.nbf_s,
        }
        if self._has_id:
            found["jti"] = str(uuid.uuid4())
        return found

    def _key(self) -> PrivateKeyTypes:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

        key = _private_key(self._key_file, self._passphrase)
        kind, name = (
            (RSAPrivateKey, "RSA") if self._algorithm.upper() == "RS256" else (EllipticCurvePrivateKey, "EC")
        )
        if not isinstance(key, kind):
            requirement = f"must be a key of {name}, as {ASSERTION_ALGORITHM}={self._algorithm} asks for"
            raise NoAssertionError(ASSERTION_KEY_FILE, self._key_file, requirement)
        return key

    def __repr__(self) -> str:
        return f"<AssertionMaker from {self._file or self._key_file}>"

    # ---- settings

    def _text(self, key: str, *, is_secret: bool = False) -> str | None:
        """None where it is not set; a blank one is an error, as in Kafka."""
        text = self._values.get(key)
        if text is not None and not text.strip():
            raise SettingError(key, None if is_secret else text, "must be left out, or have a value")
        return text

    def _read_algorithm(self) -> str:
        text = self._text(ASSERTION_ALGORITHM) or _ALGORITHMS[0]
        if text.upper() not in _ALGORITHMS:
            raise SettingError(ASSERTION_ALGORITHM, text, f"must be one of {', '.join(_ALGORITHMS)}")
        return text

    def _check_file(self, key: str) -> None:
        text = self._values.get(key, "")
        if not text:
            raise SettingError(
                key, None, f"must be set, since this client proves itself by an assertion (or {_OTHER})"
            )
        try:
            _read(key, text)
        except NoAssertionError as error:
            raise SettingError(key, text, error.requirement) from None


_OTHER: Final = f"{ASSERTION_FILE} names a file with one"


# ---- files


def _read(key: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            found = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no path"
        raise NoAssertionError(key, path, f"cannot be read: {why}") from None
    if len(found) > MAX_BYTES:
        raise NoAssertionError(key, path, f"must have at most {MAX_BYTES} bytes")
    return found


def _ready(path: str) -> str:
    """The assertion in a file."""
    try:
        text = _read(ASSERTION_FILE, path).decode("ascii").strip()
        unverified_parts(text)
    except (UnicodeDecodeError, TokenError) as error:
        why = str(error) if isinstance(error, TokenError) else "it is no ASCII"
        raise NoAssertionError(ASSERTION_FILE, path, f"must have a JSON Web Token: {why}") from None
    return text


def _template(path: str) -> dict[str, dict[str, Any]]:
    """Its objects `header` and `payload`."""
    try:
        found = parse_object(_read(ASSERTION_TEMPLATE_FILE, path))
    except JsonError as error:
        raise NoAssertionError(ASSERTION_TEMPLATE_FILE, path, f"must have a JSON object: {error}") from None
    parts = {name: found.get(name) or {} for name in ("header", "payload")}
    for name, part in parts.items():
        if not isinstance(part, dict):
            raise NoAssertionError(ASSERTION_TEMPLATE_FILE, path, f"must have an object in {name}")
    return parts


def _private_key(path: str, passphrase: str | None) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _read(ASSERTION_KEY_FILE, path).strip()
    if not data.startswith(_PKCS8):
        raise NoAssertionError(
            ASSERTION_KEY_FILE, path, "must be a private key in PEM, PKCS#8: BEGIN PRIVATE KEY"
        )
    if data.startswith(_PKCS8[1]) is (passphrase is None):
        what = "must be set" if passphrase is None else "must be left out"
        kind = "encrypted" if passphrase is None else "not encrypted"
        raise NoAssertionError(ASSERTION_KEY_FILE, path, f"is {kind}: {ASSERTION_PASSPHRASE} {what}")
    try:
        return load_pem_private_key(data, None if passphrase is None else passphrase.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):  # whose text may have more in it than it should
        why = "" if passphrase is None else f", or {ASSERTION_PASSPHRASE} is wrong"
        raise NoAssertionError(ASSERTION_KEY_FILE, path, f"cannot be used as a private key{why}") from None


def _signed(header: Mapping[str, Any], claims: Mapping[str, Any], algorithm: str, key: Any) -> str:
    from jwt.algorithms import ECAlgorithm, RSAAlgorithm

    text = f"{encoded(header)}.{encoded(claims)}"
    signer: Any = RSAAlgorithm if algorithm == "RS256" else ECAlgorithm
    signature: bytes = signer(signer.SHA256).sign(text.encode(), key)
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
