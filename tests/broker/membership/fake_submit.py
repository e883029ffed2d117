"""A stand-in for ControllerChannel.submit: the test responds to the requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from barnabas.broker.membership.controller_channel import ChannelError
from barnabas.broker.pending import Pending
from barnabas.protocol.schema import Message

M = TypeVar("M", bound=Message)


class Submitted(NamedTuple):
    request: Message
    deadline_ms: int | None
    version: int | None
    pending: Pending[Message | ChannelError]
    sent: Callable[[], object] | None = None


class FakeSubmit:
    """Keeps the requests in `submitted`; one is answered after the other."""

    def __init__(self) -> None:
        self.submitted: list[Submitted] = []

    def __call__(
        self,
        request: Message,
        *,
        deadline_ms: int | None = None,
        version: int | None = None,
        sent: Callable[[], object] | None = None,
    ) -> Pending[Message | ChannelError]:
        self.submitted.append(Submitted(request, deadline_ms, version, Pending(), sent))
        return self.submitted[-1].pending

    def last(self, kind: type[M]) -> M:
        """The last request, which is of this kind."""
        request = self.submitted[-1].request
        assert isinstance(request, kind)
        return request

    def respond(self, result: Message | ChannelError) -> None:
        """Completes the oldest request that is not complete."""
        next(each for each in self.submitted if not each.pending.done).pending.complete(result)

    @property
    def under_way(self) -> int:
        return sum(not each.pending.done for each in self.submitted)
