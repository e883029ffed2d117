"""SaslRequests: the requests of clients that have logged in, in front of the handler of all requests.

A session that has an end is renewed in the stream of requests (KIP-368): SaslHandshake begins it, and the frames
behind it are the client's tokens until it is done. Order is that of all requests: a SaslHandshake is handled when the
requests before it are answered. After the session's end the next request, if it does not begin a renewal, closes the
connection.

Source: kafka.network.Processor.processCompletedReceives, KafkaChannel.maybeBeginServerReauthentication.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.network.failure_delay import FailureDelay
from barnabas.broker.network.in_flight import Answer, Handler, Response
from barnabas.broker.pending import Pending
from barnabas.broker.probes import ListenerProbe
from barnabas.broker.request import CLOSE_CONNECTION, ConnectionInfo
from barnabas.broker.security.sasl.authenticator import (
    Clock,
    Doors,
    Failure,
    Fate,
    Listener,
    SaslAuthenticator,
    Step,
)
from barnabas.broker.security.sasl.session import SaslSession
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import Frame

if TYPE_CHECKING:
    pass

logger = logging.getLogger("barnabas.network")

_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")


class Loop(Protocol):
    def call_soon(self, callback: Callable[[], None]) -> object: ...


class Shared(Protocol):
    """What all logins share: Authentications."""

    doors: Doors
    clock: Clock
    runner: BlockingRunner
    failures: FailureDelay

    @property
    def loop(self) -> Loop: ...

    def log_failure(self, info: ConnectionInfo, failure: Failure, *, again: bool) -> None: ...
    def complain(self, info: ConnectionInfo, reason: str) -> None: ...


class ConnectionSession:
    """The session of a connection, and the login by which it is being renewed."""

    __slots__ = ("began_at", "close", "renewal", "session")

    def __init__(self, session: SaslSession, close: Callable[[], None]) -> None:
        """`close` closes the connection after what is being sent."""
        self.session = session
        self.renewal: SaslAuthenticator | None = None
        self.began_at = 0.0
        self.close = close

    def forget(self) -> None:
        """The connection is gone. It and this refer to each other, and need not wait for the garbage collector."""
        self.close = _do_nothing


def _do_nothing() -> None:
    """The `close` of a connection that is gone."""


class SaslRequests:
    """The handler of one listener's requests, all of them of clients that have logged in."""

    def __init__(self, handle: Handler, listener: Listener, shared: Shared, probe: ListenerProbe) -> None:
        self._handle = handle
        self._listener = listener
        self._shared = shared
        self._probe = probe
        self._now = shared.clock.monotonic_s

    def __call__(self, info: ConnectionInfo, frame: Frame) -> Answer:
        state: ConnectionSession = info.session
        if state.renewal is None and frame[:2] != _HANDSHAKE:
            ends_at = state.session.ends_at
            if ends_at is None or self._now() <= ends_at:
                return self._handle(info, frame)
        return self._handle_rare(info, state, frame)

    def _handle_rare(self, info: ConnectionInfo, state: ConnectionSession, frame: Frame) -> Answer:
        """A frame of a re-authentication, a SaslHandshake, or a request after the end of the session."""
        now = self._now()
        renewal = state.renewal
        if renewal is None and frame[:2] == _HANDSHAKE and state.session.begin_renewal(now):
            shared = self._shared
            renewal = state.renewal = SaslAuthenticator(
                self._listener, info, shared.doors, shared.clock, state.session
            )
            state.began_at = now
        if renewal is not None:
            return self._apply(info, state, renewal, renewal.receive(bytes(frame)))
        if state.session.is_over(now):
            self._probe.expired_connections_killed += 1
            return CLOSE_CONNECTION
        return self._handle(info, frame)

    def _apply(
        self, info: ConnectionInfo, state: ConnectionSession, renewal: SaslAuthenticator, step: Step
    ) -> Answer:
        match step.fate:
            case Fate.CONTINUE:
                assert step.answer is not None
                return step.answer
            case Fate.COMPLETE:
                assert step.answer is not None
                self._renewed(info, state, renewal)
                return step.answer
            case Fate.WORK:
                return self._work(info, state, renewal, step)
            case Fate.FAIL:
                return self._fail(info, state, step)
            case Fate.CLOSE:
                assert step.failure is not None
                self._shared.complain(info, step.failure.reason)
                return CLOSE_CONNECTION

    def _renewed(self, info: ConnectionInfo, state: ConnectionSession, renewal: SaslAuthenticator) -> None:
        assert renewal.session is not None
        state.session = renewal.session
        state.renewal = None
        info.principal = renewal.session.principal
        self._probe.successful_reauthentications += 1
        self._probe.reauthentication_times.add(self._now() - state.began_at)

    def _work(
        self, info: ConnectionInfo, state: ConnectionSession, renewal: SaslAuthenticator, step: Step
    ) -> Pending[Response]:
        """Runs the check of a token in a thread; the requests behind it wait as behind any other that waits."""
        pending: Pending[Response] = Pending()

        def worked(error: BaseException | None) -> None:
            assert error is None, error  # the step keeps what it meets
            answer: Answer
            try:
                answer = self._apply(info, state, renewal, renewal.worked())
            except Exception:
                logger.exception("a bug: closing the connection of %s:%d", info.client_host, info.client_port)
                answer = CLOSE_CONNECTION
            if isinstance(answer, Pending):
                answer.add_done_callback(pending.complete)
            else:
                pending.complete(answer)

        assert step.work is not None
        self._shared.runner.submit(step.work, worked)
        return pending

    def _fail(self, info: ConnectionInfo, state: ConnectionSession, step: Step) -> Pending[Response]:
        """Holds the answer and the close back. The frames that follow are not handled: the authenticator takes none."""
        assert step.failure is not None
        self._probe.failed_reauthentications += 1
        self._shared.log_failure(info, step.failure, again=True)
        pending: Pending[Response] = Pending()

        def end() -> None:
            if step.answer is None:
                pending.complete(CLOSE_CONNECTION)
            else:
                pending.complete(step.answer)  # is sent in the next turn of the loop
                self._shared.loop.call_soon(state.close)

        self._shared.failures.after(end)
        return pending
