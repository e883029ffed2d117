"""A request in every version that Barnabas serves, and the responses as trees, field by field."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from barnabas.broker.kafka_apis import handlers
from barnabas.broker.request import REGISTRY
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.schema import Struct
from barnabas.protocol.wire import ZERO_UUID, uuid_to_string
from tests.conformance.broker_connection import BrokerConnection, ClosedError
from tests.conformance.parity.transcript import Transcript, Tree

SETTLE_LIMIT_S: Final = 30.0
_PAUSE_S: Final = 0.02

TRANSIENT: Final = frozenset({3, 5, 6, 14, 15, 16, 51, 78, 100, 103})
"""Error codes of what is still pending: topics, leaders, coordinators, ends of transactions, log directories, ids."""

_KEYS: Final = (
    ("resource_type", "resource_name"),
    ("api_key",),
    ("name",),
    ("topic_name",),
    ("topic",),
    ("group_id",),
    ("key",),
    ("transactional_id",),
    ("partition_index",),
    ("partition",),
    ("broker_id",),
    ("node_id",),
    ("replica_id",),
    ("producer_id",),
    ("user",),
    ("feature",),
)
"""The fields that identify elements of an array, whose order is then not compared."""

_SIZES: Final = frozenset(
    {
        "total_bytes",
        "usable_bytes",
        "finalized_features_epoch",
    }
)
"""Numbers that differ between any two brokers: of a positive one only the sign is compared."""

_CLUSTER_ID: Final = re.compile(r"[\w-]{22}")


class TranscriptClient:
    """Sends requests to one broker over one connection, and notes its responses in the transcript."""

    def __init__(self, connection: BrokerConnection, transcript: Transcript) -> None:
        handlers.register_all()
        self.connection = connection
        self.transcript = transcript

    def request_every_version(
        self, what: str, request: Any, *, sizes: frozenset[str] = frozenset(), since: int = 0
    ) -> None:
        """Sends the request in every version from `since` on, without the fields that a version lacks."""
        for version in versions_of(request):
            if version >= since:
                self.request(f"{what}, v{version}", request, version, sizes=sizes)

    def request(self, step: str, request: Any, version: int, *, sizes: frozenset[str] = frozenset()) -> Any:
        """Sends the request once; notes and returns the response, None when the broker closed the connection."""
        answer = self._request(request, version)
        self.transcript.note(step, lambda: tree(answer, version, sizes))
        return answer

    def request_first_and_settled(self, what: str, request: Any, version: int) -> Any:
        """Notes the first response and the first one without a transient error."""
        answer = self.request(f"{what}, first, v{version}", request, version)
        settled = self._until_settled(request, version, answer)
        self.transcript.note(f"{what}, settled, v{version}", lambda: tree(settled, version))
        return settled

    def request_settled(self, what: str, request: Any, version: int) -> Any:
        """Notes only the first response without a transient error: earlier ones depend on the timing."""
        settled = self._until_settled(request, version, self._request(request, version))
        self.transcript.note(f"{what}, settled, v{version}", lambda: tree(settled, version))
        return settled

    def wait_until_settled(self, request: Any, version: int) -> Any:
        """The first response without a transient error; notes nothing."""
        return self._until_settled(request, version, self._request(request, version))

    def _until_settled(self, request: Any, version: int, answer: Any) -> Any:
        deadline = time.monotonic() + SETTLE_LIMIT_S
        while answer is not None and TRANSIENT & set(error_codes(answer)):
            assert time.monotonic() < deadline, answer
            time.sleep(_PAUSE_S)
            answer = self._request(request, version)
        return answer

    def _request(self, request: Any, version: int) -> Any:
        try:
            return self.connection.request(fitted(request, version), version)
        except ClosedError:
            return None


def message(cls: type[Struct], **values: Any) -> Any:
    """A request with its structs given as dicts."""
    return _made(cls, values)


def _made(cls: type[Struct], values: Mapping[str, Any]) -> Any:
    structs = {field.name: field.struct for field in cls.fields}
    return cls(**{name: _filled(structs[name], value) for name, value in values.items()})


def _filled(struct: type[Struct] | None, value: Any) -> Any:
    if struct is None or value is None:
        return value
    return [_made(struct, one) for one in value] if isinstance(value, list) else _made(struct, value)


def versions_of(request: Any) -> range:
    """The versions in which Barnabas serves such a request."""
    low, high = REGISTRY[ApiKey(request.api_key)].versions
    return range(low, high + 1)


def fitted(value: Any, version: int) -> Any:
    """The request without fields that the version lacks, and without nulls that it does not allow."""
    if isinstance(value, list):
        return [fitted(one, version) for one in value]
    if not isinstance(value, Struct):
        return value
    fields = {}
    for field in value.fields:
        if field.versions.has(version):
            item = getattr(value, field.name)
            if item != field.make_default() and (item is not None or field.nullable.has(version)):
                fields[field.name] = fitted(item, version)
    return type(value)(**fields)


def error_codes(value: Any) -> Iterator[int]:
    """All error codes of a response, at any depth."""
    if isinstance(value, Struct):
        for field in value.fields:
            item = getattr(value, field.name)
            if field.name == "error_code":
                yield item
            else:
                yield from error_codes(item)
    elif isinstance(value, list):
        for one in value:
            yield from error_codes(one)


def tree(value: Any, version: int, sizes: frozenset[str] = frozenset()) -> Tree:
    """A response as a JSON value with the fields of its version."""
    if value is None:
        return "closed"
    return _struct(value, version, _SIZES | sizes)


def _struct(value: Struct, version: int, sizes: frozenset[str]) -> Tree:
    fields = [field for field in value.fields if field.versions.has(version)]
    shown = {field.name: _value(field.name, getattr(value, field.name), version, sizes) for field in fields}
    if value.unknown_tagged_fields:
        shown["unknown_tagged_fields"] = sorted(value.unknown_tagged_fields)
    return shown


def _value(name: str, value: Any, version: int, sizes: frozenset[str]) -> Tree:
    if isinstance(value, Struct):
        return _struct(value, version, sizes)
    if isinstance(value, list):
        return _array(name, value, version, sizes)
    if isinstance(value, bytes | memoryview):
        return _bytes(bytes(value))
    if name in sizes and isinstance(value, int):
        return "positive" if value > 0 else value
    if name == "documentation" and value:
        return "a text"  # brokers word it differently
    if name == "cluster_id":
        return "<id>" if _CLUSTER_ID.fullmatch(value or "") else value
    return value


def _bytes(value: bytes) -> Tree:
    if len(value) == len(ZERO_UUID):
        return "none" if value == ZERO_UUID else uuid_to_string(value)
    return value.hex()


def _array(name: str, values: list[Any], version: int, sizes: frozenset[str]) -> Tree:
    shown = [_value(name, one, version, sizes) for one in values]
    if not values or not isinstance(values[0], Struct):
        return shown
    for keys in _KEYS:
        if all(key in shown[0] for key in keys):
            named = {" ".join(_word(key, one[key]) for key in keys): one for one in shown}
            if len(named) == len(shown):
                return named
    return shown


def _word(key: str, value: Any) -> str:
    return _api(value) if key == "api_key" else str(value)


def _api(key: int) -> str:
    """The name of an API with spaces: without them some look like ids."""
    try:
        return ApiKey(key).name.replace("_", " ").title()
    except ValueError:
        return str(key)


Round = Callable[[TranscriptClient], None]
