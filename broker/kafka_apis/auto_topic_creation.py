"""Creates topics on demand: for Metadata requests, and for a coordinator's state.

Source: kafka.server.DefaultAutoTopicCreationManager, which answers with an error until the topic exists. So does a
member of a cluster; on a node that is alone the response waits for the topic, which is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.internal_topic_specs import creatable_topic
from barnabas.broker.controller.topic_admin import new_topics
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending, completed
from barnabas.broker.request import PartitionCharge
from barnabas.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.request import RequestContext


def create_topics_on_demand(
    broker: Broker, names: Sequence[str], context: RequestContext | None
) -> Pending[dict[str, ErrorCode]]:
    """Creates those of `names` (each once) that do not exist; the result has the errors of those that failed.

    In a cluster the controller creates them, in the name of the client of `context`, or of this broker without one.
    While the client's quota of changes to topics is used up they are not created; Kafka's controller does the same.
    """
    if broker.topic_creation is not None:
        broker.topic_creation.create(names, context)
        return completed({})
    brokers = len(broker.topic_defaults.brokers)
    charge: PartitionCharge | None = None
    if context is not None and context.meter is not None:
        charge = context.meter.mutation_charge(is_strict=True, throttles=False)

    def decide(image: MetadataImage) -> Decision[dict[str, ErrorCode]]:
        wanted = [creatable_topic(name, broker.config, brokers) for name in names if name not in image.topics]
        no_space = broker.replica_manager.no_space_error()
        try:
            outcomes = new_topics(
                image, wanted, broker.topic_defaults, broker.new_topic_id, no_space, charge=charge
            )
        except ApiError as error:
            return Decision({topic.name: error.code for topic in wanted})
        failures = {name: _shown(topic) for name, topic in outcomes.items() if isinstance(topic, ApiError)}
        records = [r for topic in outcomes.values() if not isinstance(topic, ApiError) for r in topic.records]
        return Decision(failures, records)

    return broker.controller.submit(decide, lambda _: dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE))


def _shown(error: ApiError) -> ErrorCode:
    """The error in a response to Metadata: a client whose quota is used up asks again for a topic that is unknown."""
    exceeded = error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if exceeded else error.code
