"""UpdateFeatures: the levels that features have in the whole cluster (KIP-584, KIP-778)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.feature_admin import FeatureRules, FeatureUpdate, UpgradeType, update_features
from barnabas.broker.metadata.features import supported
from barnabas.broker.metadata.versions import KRAFT_VERSION
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.config.catalogue.log import MIN_INSYNC_REPLICAS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.cluster import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.metadata.image import MetadataImage
    from barnabas.config.broker_config import BrokerConfig

_UPGRADE_TYPES_SINCE: Final = 1
"""Before, an update had a flag for downgrades, which Kafka's controller no longer reads."""

_NO_ERROR_TEXT: Final = "NONE"
"""The error text of a feature without an error: Kafka's name of the code."""


@api(ApiKey.UPDATE_FEATURES, versions=(0, 2), forwardable=True)
def update_features_request(
    broker: Broker, context: RequestContext, request: UpdateFeaturesRequest
) -> Pending[UpdateFeaturesResponse]:
    updates = [_update(key, context.api_version) for key in request.feature_updates]
    rules = FeatureRules(
        broker.node_id,
        supported(broker.config),
        broker.quorum.kraft_version,
        _static_min_insync_replicas(broker.config),
        can_name_voters=broker.own_quorum.can_name_voters,
    )
    kraft_version = max((one.level for one in updates if one.feature == KRAFT_VERSION), default=0)

    def decide(image: MetadataImage) -> Decision[UpdateFeaturesResponse]:
        try:
            records = update_features(image, updates, rules)
        except ApiError as error:
            return Decision(UpdateFeaturesResponse(error_code=error.code, error_message=error.message))
        return Decision(_done(request), () if request.validate_only else records)

    def failed(error: BaseException) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=f"The levels were not recorded: {error}"
        )

    def upgraded(response: UpdateFeaturesResponse) -> bool:
        is_new = kraft_version > rules.kraft_version and not request.validate_only
        return is_new and response.error_code == ErrorCode.NONE

    answer = broker.controller.submit(decide, failed)
    return broker.own_quorum.upgrading(answer, kraft_version, upgraded, failed)


def _static_min_insync_replicas(config: BrokerConfig) -> int:
    """The configured value without the dynamic settings, which are about to change."""
    settings = config.layers(MIN_INSYNC_REPLICAS.name)
    static = (MIN_INSYNC_REPLICAS.parse(one.text) for one in settings if not one.source.is_dynamic)
    return next(static, MIN_INSYNC_REPLICAS.default)


def _update(key: UpdateFeaturesRequest.FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version >= _UPGRADE_TYPES_SINCE:
        return FeatureUpdate(key.feature, key.max_version_level, key.upgrade_type)
    return FeatureUpdate(key.feature, key.max_version_level, UpgradeType.UPGRADE)


def _done(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdateFeaturesResponse.UpdatableFeatureResult(feature=key.feature, error_message=_NO_ERROR_TEXT)
            for key in request.feature_updates
        ],
    )
