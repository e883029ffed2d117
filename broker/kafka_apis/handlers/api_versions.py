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
    from barnabas.broker.broker import Broker, Forwarder

_SOFTWARE_VERSION: Final = 3
"""The first version in which clients name themselves."""

MAX_SOFTWARE_CHARACTERS: Final = 256
"""What is kept of the name and of the version of a client's software, which it may send before it has logged in."""

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
        context.connection.client_software_name = name[:MAX_SOFTWARE_CHARACTERS]
        context.connection.client_software_version = software_version[:MAX_SOFTWARE_CHARACTERS]
    return ApiVersionsResponse(
        api_keys=_offered(broker),
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


def _offered(broker: Broker) -> list[ApiVersionsResponse.ApiVersion]:
    """What is served here; of what the controller of a cluster answers, in the versions that both serve."""
    offered = tuple(handler for handler in REGISTRY.values() if handler.offered(broker))
    forwarder, with_unstable = broker.forwarder, broker.config[UNSTABLE_API_VERSIONS_ENABLE]
    if forwarder is None:
        return _api_keys(offered, with_unstable=with_unstable)
    offered += tuple(forwarder.handlers.values())
    forwarded = {handler.key for handler in offered if handler.forwardable}
    limited = [
        _limited(each, forwarder) if each.api_key in forwarded else each
        for each in _api_keys(offered, with_unstable=with_unstable)
    ]
    return [each for each in limited if each is not None]


def _limited(
    api: ApiVersionsResponse.ApiVersion, forwarder: Forwarder
) -> ApiVersionsResponse.ApiVersion | None:
    served = forwarder.controller_versions(api.api_key)
    if served is None:
        return None
    low, high = max(api.min_version, served.low), min(api.max_version, served.high)
    if low > high:
        return None
    return ApiVersionsResponse.ApiVersion(api_key=api.api_key, min_version=low, max_version=high)


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
