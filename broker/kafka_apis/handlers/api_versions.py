"""ApiVersions: the APIs and versions that the broker serves, from the registry of handlers (KIP-35, KIP-511)."""

from __future__ import annotations

import functools
import string
from typing import TYPE_CHECKING, Final

from barnabas.broker.metadata.features import finalized, supported
from barnabas.broker.request import REGISTRY, ApiHandler, RequestContext, api
from barnabas.config.catalogue.server import UNSTABLE_API_VERSIONS_ENABLE
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_SOFTWARE_VERSION: Final = 3
"""The first version in which clients name themselves."""

_FEATURES_FROM_ZERO: Final = 4
"""The first version in which a feature's lowest level may be 0; before it such a feature is not shown (KAFKA-17011)."""

_ENDS: Final = frozenset(string.ascii_letters + string.digits)
_INNER: Final = _ENDS | frozenset("-.")


@api(ApiKey.API_VERSIONS, versions=(0, 4))
def api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    version = context.api_version
    if version >= _SOFTWARE_VERSION:
        name, software_version = request.client_software_name, request.client_software_version
        if not (_is_software_word(name) and _is_software_word(software_version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.client_software_name = name
        context.connection.client_software_version = software_version
    return ApiVersionsResponse(
        api_keys=_api_keys(
            tuple(handler for handler in REGISTRY.values() if handler.offered(broker)),
            with_unstable=broker.config[UNSTABLE_API_VERSIONS_ENABLE],
        ),
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in supported(broker.config).items()
            if low > 0 or version >= _FEATURES_FROM_ZERO
        ],
        finalized_features_epoch=broker.image.offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, min_version_level=level, max_version_level=level
            )
            for name, level in finalized(broker.image.features, broker.quorum.kraft_version).items()
        ],
    )


@functools.cache
def _api_keys(
    offered: tuple[ApiHandler, ...], *, with_unstable: bool
) -> list[ApiVersionsResponse.ApiVersion]:
    """The ranges of these handlers, by key; cached, since every connection asks for them first."""
    shown = sorted((handler.key, handler.shown(with_unstable=with_unstable)) for handler in offered)
    return [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in shown
    ]


def _is_software_word(word: str) -> bool:
    """Letters and digits, with '-' and '.' between them: a valid name or version of client software (KIP-511)."""
    return bool(word) and _INNER.issuperset(word) and word[0] in _ENDS and word[-1] in _ENDS
