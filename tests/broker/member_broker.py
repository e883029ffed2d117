"""A broker without sockets that answers as the member of a cluster; its controller is a stand-in for the cluster's."""

from __future__ import annotations

from barnabas.broker.controller.auto_topic_creation import AutoTopicCreationManager
from barnabas.broker.controller.embedded import Decision
from barnabas.broker.metadata.member_answers import MemberAnswers
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.schema import Message
from tests.broker.broker_fixture import NODE_ID, InProcessBroker
from tests.broker.cluster_images import registration

LISTENER = "PLAINTEXT"
"""That of the clients of an InProcessBroker."""


class Cluster:
    """The cluster of `broker`: itself, broker 2, broker 3 that is fenced, and broker 4 on another listener.

    `created` has the requests for the controller to create topics.
    """

    def __init__(self, broker: InProcessBroker) -> None:
        self.broker = broker
        self.created: list[tuple[CreateTopicsRequest, RequestContext | None]] = []
        self.answers: list[Pending[CreateTopicsResponse | str | None]] = []
        broker.broker.cluster = MemberAnswers(max)
        broker.broker.topic_creation = AutoTopicCreationManager(
            broker.config, self._send, clock=broker.timer.time
        )
        self.commit(
            registration(NODE_ID, listeners=(LISTENER,)),
            registration(2, listeners=(LISTENER,), rack="r2"),
            registration(3, listeners=(LISTENER,), fenced=True),
            registration(4, listeners=("OTHER",)),
        )

    def commit(self, *records: Message) -> None:
        """Publishes records of the controller."""
        assert self.broker.controller.submit(lambda _: Decision(True, list(records)), lambda _: False).done

    def _send(
        self, request: CreateTopicsRequest, context: RequestContext | None
    ) -> Pending[CreateTopicsResponse | str | None]:
        self.created.append((request, context))
        self.answers.append(Pending())
        return self.answers[-1]
