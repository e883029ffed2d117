"""One blocking connection to one broker, which negotiates versions and then exchanges requests and responses.

Where security.protocol asks for that it begins with a TLS handshake and a SASL login; `secure_socket` and `login` have
them.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker.version import VERSION
from barnabas.cli.admin import login, secure_socket
from barnabas.cli.admin.errors import (
    NotReachableError,
    SecurityFailedError,
    UnsendableError,
    UnsupportedApiError,
)
from barnabas.protocol.api_keys import (
    ApiKey,
    known_versions,
    request_header_version,
    response_header_version,
    response_type,
)
from barnabas.protocol.codec import decode, decoder, encode
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import SIZE_BYTES, size_prefix
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import VersionRange
from barnabas.security.client_settings import NO_SECURITY, ClientSecurity
from barnabas.security.errors import SaslClientError

if TYPE_CHECKING:
    from barnabas.cli.admin.settings import Address
    from barnabas.protocol.schema import Message

MAX_ANSWER_BYTES: Final = 256 << 20
"""Above any valid response; a peer with another protocol seems to announce gigabytes."""
_SIZE: Final = struct.Struct(">i")
ANY_VERSION: Final = VersionRange(0, 32767)


class LostConnectionError(Exception):
    """The connection could not be opened, or was lost, or timed out; the request may have been processed."""


class UnknownHostError(LostConnectionError):
    """The host has no address."""


class VersionChoice(NamedTuple):
    """The versions of one API: those of this client, and those of the broker, None if it does not serve it."""

    key: ApiKey
    ours: VersionRange
    theirs: VersionRange | None

    def newest(self, address: Address) -> int:
        """The newest common version. Raises UnsupportedApiError."""
        name = self.key.title
        if self.theirs is None:
            raise UnsupportedApiError(
                f"the broker at {address} does not serve {name} (API key {self.key.value})"
            )
        low, high = max(self.ours.low, self.theirs.low), min(self.ours.high, self.theirs.high)
        if low > high:
            raise UnsupportedApiError(
                f"the broker at {address} serves {name} (API key {self.key.value}) in versions {self.theirs}, "
                f"and this needs one of {self.ours}"
            )
        return high


class Connection:
    """A socket with at most one request in flight.

    Raises LostConnectionError if it cannot be opened, NotReachableError if the peer is not a Kafka broker, and
    SecurityFailedError if TLS or the login fails.
    """

    def __init__(
        self,
        address: Address,
        client_id: str,
        *,
        connect_timeout_s: float,
        timeout_s: float,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        self.address = address
        self._security = security
        self._client_id = client_id
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection(address, timeout=connect_timeout_s)
        except socket.gaierror as error:
            raise UnknownHostError(f"{address.host} is an unknown host: {error.strerror}") from None
        except ValueError:  # a label that is empty or longer than 63 characters cannot be resolved
            raise UnknownHostError(f"{address.host!r} is not a host name") from None
        except OSError as error:
            raise LostConnectionError(f"no server answers at {address}: {error.strerror or error}") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._secure(timeout_s)
            self.features = self._negotiate(timeout_s)
        except BaseException:
            self.close()
            raise
        self._served = {
            api.api_key: VersionRange(api.min_version, api.max_version) for api in self.features.api_keys
        }

    def version_of(self, key: ApiKey, versions: VersionRange = ANY_VERSION) -> int:
        """The newest version of `key` that both sides support, within `versions`. Raises UnsupportedApiError."""
        known = known_versions(key)
        ours = VersionRange(max(known.low, versions.low), min(known.high, versions.high))
        return VersionChoice(key, ours, self._served.get(key)).newest(self.address)

    def serves(self, key: ApiKey) -> bool:
        """Whether the broker serves this API in any version."""
        return key in self._served

    def ask(self, request: Message, version: int, timeout_s: float) -> Any:
        """The response. Raises LostConnectionError, and ProtocolError for bytes that cannot be decoded.

        Raises UnsendableError for a value that cannot be encoded.
        """
        assert request.api_key is not None
        try:
            body = encode(request, version)
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise UnsendableError(f"the request cannot be encoded: {reason}") from None
        frame = self._exchange(ApiKey(request.api_key), version, body, timeout_s)
        return decode(response_type(request.api_key), version, frame)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    # ---- TLS and login

    def _secure(self, timeout_s: float) -> None:
        if self._security.tls is not None:
            self._socket.settimeout(timeout_s)
            try:
                self._socket = secure_socket.wrap(self._socket, self._security, self.address.host)
            except secure_socket.TlsFailedError as error:
                raise SecurityFailedError(f"TLS with {self.address} failed: {error}") from None
            except OSError as error:
                raise LostConnectionError(
                    f"TLS with {self.address} failed: {error.strerror or error}"
                ) from None
        who = self._security.login
        if who is not None:
            try:
                login.log_in(
                    who.client(self.address.host),
                    lambda key, version, body: self._exchange(key, version, body, timeout_s),
                )
            except SaslClientError as error:
                raise SecurityFailedError(
                    f"the login as {who.user} by {who.mechanism} at {self.address} failed: {error}"
                ) from None
            except ProtocolError as error:
                raise NotReachableError(f"{self.address} does not speak Kafka's protocol: {error}") from None

    # ---- versions (KIP-35, KIP-511)

    def _negotiate(self, timeout_s: float) -> ApiVersionsResponse:
        answer = self._ask_versions(ApiVersionsRequest.versions.high, timeout_s)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = next(
                (api.max_version for api in answer.api_keys if api.api_key == ApiKey.API_VERSIONS), 0
            )
            answer = self._ask_versions(offered, timeout_s)
        if answer.error_code != ErrorCode.NONE:
            raise NotReachableError(f"{self.address} rejects ApiVersions: error {answer.error_code}")
        return answer

    def _ask_versions(self, version: int, timeout_s: float) -> ApiVersionsResponse:
        request = ApiVersionsRequest(
            client_software_name="barnabas", client_software_version=VERSION.replace("+", ".")
        )
        frame = self._exchange(ApiKey.API_VERSIONS, version, encode(request, version), timeout_s)
        if frame[:2] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION):
            version = 0  # the broker does not have the requested version
        try:
            return decode(ApiVersionsResponse, version, frame)
        except ProtocolError as error:
            raise NotReachableError(f"{self.address} does not speak Kafka's protocol: {error}") from None

    # ---- frames

    def _exchange(self, key: ApiKey, version: int, body: bytes, timeout_s: float) -> bytes:
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        payload = encode(header, request_header_version(key, version)) + body
        deadline = time.monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(size_prefix(len(payload)) + payload)
            frame = self._read(self._frame_size(self._read(SIZE_BYTES, deadline)), deadline)
        except TimeoutError:
            raise LostConnectionError(f"no answer from {self.address} within {timeout_s:.0f} s") from None
        except OSError as error:
            if self._security.tls is not None and (reason := secure_socket.rejection(error)):
                raise SecurityFailedError(f"TLS with {self.address} failed: {reason}") from None
            raise LostConnectionError(
                f"the connection to {self.address} broke: {error.strerror or error}"
            ) from None
        return self._body(frame, response_header_version(key, version))

    def _frame_size(self, prefix: bytes) -> int:
        size: int = _SIZE.unpack(prefix)[0]
        if not 0 < size <= MAX_ANSWER_BYTES:
            raise NotReachableError(
                f"{self.address} does not speak Kafka's protocol in plain text: its response begins with {prefix!r}"
            )
        return size

    def _read(self, size: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = self._socket.recv(min(size - len(parts), 1 << 20))
            if not piece:
                raise LostConnectionError(f"{self.address} closed the connection")
            parts += piece
        return bytes(parts)

    def _body(self, frame: bytes, header_version: int) -> bytes:
        header, position = decoder(ResponseHeader, header_version)(frame, 0, len(frame))
        if header.correlation_id != self._correlation_id:
            raise ProtocolError(
                f"{self.address} answered request {header.correlation_id}, not {self._correlation_id}"
            )
        return frame[position:]
