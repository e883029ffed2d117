"""Names that both sides share for generated values: ids of topics, producers, members and fetch sessions.

A name depends on where the value first appears: the id of the first topic `t` of its run is "topic t 0", whichever
request shows it first; the member that step 7 created is "member 7". So it stays the same when steps are left out.
"""

from __future__ import annotations

import re
from hashlib import md5
from typing import Any, Final, TypeVar
from zlib import crc32

from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.groups import JoinGroupRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.protocol.schema import Field, Struct
from barnabas.protocol.wire import ZERO_UUID
from tests.conformance.differential.batches import with_producer_ids
from tests.conformance.differential.steps import PREFIX, Step

PRODUCER_IDS: Final = frozenset(
    {"producer_id", "v3_and_below_producer_id", "producer_id_filters", "ongoing_txn_producer_id"}
)
MEMBER_IDS: Final = frozenset({"member_id", "leader"})
TOPIC_NAMES: Final = ("name", "topic_name", "topic")
S = TypeVar("S", bound=Struct)

_FIRST_PRODUCER: Final = 10**12
_FIRST_SESSION: Final = 1_500_000_000
_ENDS_WITH_UUID: Final = re.compile("-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_KEPT: Final = frozenset({ZERO_UUID, b"", "", -1, 0})


def topic_token(name: str, incarnation: int = 0) -> bytes:
    """The shared id of a topic: the first of its name, or a later one."""
    return md5(f"topic {name} {incarnation}".encode()).digest()


class Names:
    """The names of one side in one run: puts the side's values into requests, and the names into responses."""

    def __init__(self, prefix: str) -> None:
        assert len(prefix) == len(PREFIX)
        self.prefix = prefix
        self._theirs: dict[Any, Any] = {}
        self._shared: dict[Any, Any] = {}
        self._made: dict[str, int] = {}

    # ---- requests

    def theirs(self, request: S) -> S:
        """The request with the values of this side."""
        return self._struct(type(request), request)

    def _struct(self, cls: type[S], value: S) -> S:
        return cls(**{field.name: self._field(field, getattr(value, field.name)) for field in value.fields})

    def _field(self, field: Field, value: Any) -> Any:
        if isinstance(value, Struct):
            return self._struct(field.struct or type(value), value)
        return self._out(field.name, value)

    def _out(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._theirs.get(value, value.replace(PREFIX, self.prefix))
        if isinstance(value, list):
            return [self._out(name, item) for item in value]
        if isinstance(value, Struct):
            return self._struct(type(value), value)
        if isinstance(value, bytes):
            if name == "records":
                return with_producer_ids(value, self._theirs)
            return self._theirs.get(value, value.replace(PREFIX.encode(), self.prefix.encode()))
        if isinstance(value, int) and (name in PRODUCER_IDS or name == "session_id"):
            return self._theirs.get(value, value)
        return value

    # ---- responses

    def text(self, value: str) -> str:
        """A string of a response with the shared names."""
        shared: str = self._shared.get(value, value.replace(self.prefix, PREFIX))
        return shared

    def data(self, value: bytes) -> bytes:
        """Bytes of a response, other than records, with the shared names."""
        if len(value) == 16 and value in self._shared:
            shared: bytes = self._shared[value]
            return shared
        return value.replace(self.prefix.encode(), PREFIX.encode())

    def records(self, value: bytes) -> bytes:
        """Record batches of a response with the shared producer ids."""
        return with_producer_ids(value, self._shared)

    def topic_id(self, value: bytes, owner: Struct | None, step: Step) -> bytes:
        """The name of a topic's id; `owner` is the struct around it, which may have the topic's name."""
        if value in _KEPT:
            return value
        name = next((getattr(owner, key) for key in TOPIC_NAMES if getattr(owner, key, None)), None)
        if value not in self._shared and value not in self._theirs:
            hint = f"topic {self.text(name)}" if name else f"topic of step {step.uid}"
            self._learn(value, md5(f"{hint} {self._next(hint)}".encode()).digest())
        topic_id: bytes = self._shared.get(value, value)
        return topic_id

    def producer_id(self, value: int, step: Step) -> int:
        """The name of a producer's id. 0 is given out before the sequences begin: here it stands for no id."""
        if value <= 0 or value in self._theirs:
            return value
        if value not in self._shared:
            request = step.request
            of = request.transactional_id if isinstance(request, InitProducerIdRequest) else None
            hint = f"producer {of or step.uid}"
            self._learn(value, _FIRST_PRODUCER + crc32(f"{hint} {self._next(hint)}".encode()))
        producer_id: int = self._shared[value]
        return producer_id

    def member_id(self, value: str, step: Step) -> str:
        """The name of a member's id; ids that clients chose stay as they are."""
        if value in self._shared or value in self._theirs:
            return self.text(value)
        if not _is_generated(value, step):
            return "not known yet" if _ENDS_WITH_UUID.search(value) else self.text(value)
        hint = f"member {step.uid}"
        self._learn(value, f"{hint} {self._next(hint)}")
        return self.text(value)

    def session_id(self, value: int, step: Step) -> int:
        """The name of a fetch session."""
        if value == 0 or value in self._theirs:
            return value
        if value not in self._shared:
            self._learn(value, _FIRST_SESSION + step.uid)
        session_id: int = self._shared[value]
        return session_id

    def _next(self, hint: str) -> int:
        count = self._made.get(hint, 0)
        self._made[hint] = count + 1
        return count

    def _learn(self, theirs: Any, shared: Any) -> None:
        self._theirs[shared] = theirs
        self._shared[theirs] = shared


def _is_generated(member_id: str, step: Step) -> bool:
    """Whether the broker has generated that id for the joining member."""
    request = step.request
    if not isinstance(request, JoinGroupRequest | ConsumerGroupHeartbeatRequest):
        return False
    return bool(member_id) and request.member_id == ""
