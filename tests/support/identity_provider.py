"""An identity provider (OAuth 2.0, OpenID Connect) on loopback, for tests: it makes tokens for clients with a secret.

with IdentityProvider({"alice": "alice-secret"}) as provider:
    provider.token_url, provider.keys_url     # what clients and brokers are configured with
    provider.keys = [SigningKey("RS256", "two")]   # the first one signs
    provider.failure = (503, b"")             # what it answers from now on
    provider.signers = {"bob": public_key}    # clients that prove themselves by assertions (RFC 7523), by their `iss`
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt

from tests.support.tokens import ISSUER, SigningKey, key_set

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class IdentityProvider:
    """Serves /keys, and /token to the clients that it knows, with HTTP Basic."""

    def __init__(self, secrets: dict[str, str] | None = None, context: ssl.SSLContext | None = None) -> None:
        self.secrets = secrets or {}
        self.signers: dict[str, Any] = {}
        self.keys: list[SigningKey] = [SigningKey()]
        self.lifetime_s = 300
        self.claims: dict[str, Any] = {}
        self.failure: tuple[int, bytes] | None = None
        self.headers: dict[str, str] = {}
        """Of answers while `failure` is set."""
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        """Paths, and the form of each."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.requests.append((self.path, {}))
                provider.pause()
                self.answer(200, key_set(*provider.keys) if self.path == "/keys" else b"{}")

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                provider.requests.append((self.path, form))
                self.answer(*provider.grant(self.headers.get("Authorization", ""), form))

            def answer(self, status: int, body: bytes) -> None:
                headers: dict[str, str] = {}
                if provider.failure is not None:
                    (status, body), headers = provider.failure, provider.headers
                self.send_response(status)
                kind = {"Content-Type": "application/json", "Content-Length": str(len(body))}
                for name, value in {**kind, **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme, port = "http" if context is None else "https", self._server.server_port
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.keys_url = f"{self.url}/keys"
        self.token_url = f"{self.url}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True)

    def pause(self) -> None:
        """Called in the thread of a request for keys, before its answer: for a provider that takes its time."""

    def grant(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
        """The answer to a request for a token."""
        if form.get("grant_type") == [JWT_BEARER]:
            return self._grant_signed(form.get("assertion", [""])[0], form)
        if form.get("client_assertion_type") == [ASSERTION_TYPE]:
            return self._grant_signed(form.get("client_assertion", [""])[0], form)
        scheme, _, encoded = authorization.partition(" ")
        user, _, secret = base64.b64decode(encoded).decode().partition(":")
        if scheme != "Basic" or user not in self.secrets or self.secrets[user] != secret:
            error = {"error": "invalid_client", "error_description": "Invalid client credentials"}
            return 401, json.dumps(error).encode()
        return self._granted(user, form)

    def _grant_signed(self, assertion: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
        try:
            issuer = jwt.decode(assertion, options={"verify_signature": False})["iss"]
            key, audience = self.signers[issuer], self.token_url
            claims = jwt.decode(assertion, key, ["RS256", "ES256"], audience=audience)
        except (jwt.PyJWTError, KeyError):
            return 401, json.dumps({"error": "invalid_grant"}).encode()
        return self._granted(claims["sub"], form)

    def _granted(self, user: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
        if form.get("grant_type") not in (["client_credentials"], [JWT_BEARER]):
            return 400, json.dumps({"error": "unsupported_grant_type"}).encode()
        scope = form.get("scope", ["profile"])[0]
        answer = {
            "access_token": self.token(user, scope=scope),
            "token_type": "Bearer",
            "expires_in": self.lifetime_s,
        }
        return 200, json.dumps(answer).encode()

    def token(self, user: str, **claims: Any) -> str:
        """A token for a user, signed by the first key."""
        now_s = int(time.time())
        full = {"sub": user, "iss": ISSUER, "exp": now_s + self.lifetime_s, **self.claims, **claims}
        return self.keys[0].token(full, now_s)

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(urlsplit(each).path == path for each, _ in self.requests)

    def __enter__(self) -> IdentityProvider:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
