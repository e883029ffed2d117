"""The types of quotas, with the names that Kafka's metrics have for them, and the keys that set them.

Source: org.apache.kafka.server.quota.QuotaType, ClientQuotaMetadataManager.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from barnabas.config.catalogue.resources import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)


class QuotaType(Enum):
    """What a quota limits. The values name them in metrics and to a ClientQuotaCallback."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


TYPE_OF_KEY: Final = {
    PRODUCER_BYTE_RATE.name: QuotaType.PRODUCE,
    CONSUMER_BYTE_RATE.name: QuotaType.FETCH,
    REQUEST_PERCENTAGE.name: QuotaType.REQUEST,
    CONTROLLER_MUTATION_RATE.name: QuotaType.CONTROLLER_MUTATION,
}
"""By the key of AlterClientQuotas."""
