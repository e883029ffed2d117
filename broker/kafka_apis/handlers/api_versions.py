"""ApiVersions: the APIs and versions that the broker serves, from the registry of handlers (KIP-35, KIP-511).

Every connection asks first, and nearly always receives what the one before it has: the arrays of the response are
encoded once for each version, and again when something has changed that they are made of.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.metadata.features import finalized, supported
from barnabas.broker.request import REGISTRY, ApiHandler, RequestContext, api
from barnabas.config.catalogue.server import UNSTABLE_API_VERSIONS_ENABLE
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import element_encoder
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.wire import Encoded, EncodedArray

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.protocol.schema import Struct, VersionRange

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
    arrays = _arrays(broker, version)
    return ApiVersionsResponse(
        api_keys=arrays.apis,  # type: ignore[arg-type]  # encoded elements stand for theirs, here and below
        supported_features=arrays.supported,  # type: ignore[arg-type]
        finalized_features_epoch=broker.image.offset,
        finalized_features=arrays.finalized,  # type: ignore[arg-type]
    )


class _Basis(NamedTuple):
    """What the arrays are made of, beside what never changes: the registry, and settings that are read at the start."""

    offered: tuple[bool, ...]
    """Of the APIs that are not always offered, in the order of the registry."""
    of_controller: tuple[VersionRange | None, ...]
    """The versions of the APIs that a cluster's controller answers for."""
    features: Mapping[str, int]
    kraft_version: int


class _Arrays(NamedTuple):
    """The arrays of the response in one version."""

    basis: _Basis
    apis: EncodedArray
    supported: EncodedArray
    finalized: EncodedArray


def _arrays(broker: Broker, version: int) -> _Arrays:
    """The arrays in this version, as they have to be now."""
    known: _Arrays | None = broker.version_arrays.get(version)
    basis = _basis(broker)
    if known is None or known.basis != basis:
        known = broker.version_arrays[version] = _encoded(broker, basis, version)
    return known


def _basis(broker: Broker) -> _Basis:
    kinds, forwarder = _kinds(len(REGISTRY)), broker.forwarder
    of_controller: tuple[VersionRange | None, ...] = ()
    if forwarder is not None:
        keys = (*kinds.forwarded, *forwarder.handlers)
        of_controller = tuple([forwarder.controller_versions(key) for key in keys])
    offered = tuple([handler.offered(broker) for handler in kinds.sometimes])
    return _Basis(offered, of_controller, broker.image.features, broker.quorum.kraft_version)


class _Kinds(NamedTuple):
    """APIs that are not always offered, and keys of those that are forwarded."""

    sometimes: tuple[ApiHandler, ...]
    forwarded: tuple[int, ...]


@functools.cache
def _kinds(registered: int) -> _Kinds:
    """Those of a registry of so many APIs: none is ever replaced."""
    handlers = REGISTRY.values()
    return _Kinds(
        tuple(handler for handler in handlers if not handler.is_always_offered),
        tuple(handler.key for handler in handlers if handler.forwardable),
    )


def _encoded(broker: Broker, basis: _Basis, version: int) -> _Arrays:
    has_features = version >= _SOFTWARE_VERSION
    supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in supported(broker.config).items()
        if has_features and (low > 0 or version >= _FEATURES_FROM_ZERO)
    ]
    finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in finalized(basis.features, basis.kraft_version).items()
        if has_features
    ]
    return _Arrays(
        basis, *(_array(version, each) for each in (_offered(broker), supported_features, finalized_features))
    )


def _array(version: int, elements: Sequence[Struct]) -> EncodedArray:
    if not elements:
        return EncodedArray(0, Encoded())
    encode = element_encoder(ApiVersionsResponse, type(elements[0]), version)
    return EncodedArray(len(elements), Encoded(b"".join([encode(element) for element in elements])))


def _offered(broker: Broker) -> list[ApiVersionsResponse.ApiVersion]:
    """What is served here; of what the controller of a cluster answers, in the versions that both serve."""
    forwarder, with_unstable = broker.forwarder, broker.config[UNSTABLE_API_VERSIONS_ENABLE]
    offered = [handler for handler in REGISTRY.values() if handler.offered(broker)]
    if forwarder is not None:
        offered += forwarder.handlers.values()
    ranges = []
    for handler in sorted(offered, key=lambda handler: handler.key):
        low, high = handler.shown(with_unstable=with_unstable)
        if forwarder is not None and handler.forwardable:
            served = forwarder.controller_versions(handler.key)
            if served is None:
                continue
            low, high = max(low, served.low), min(high, served.high)
        if low <= high:
            ranges.append(
                ApiVersionsResponse.ApiVersion(api_key=handler.key, min_version=low, max_version=high)
            )
    return ranges


def _is_software_word(word: str) -> bool:
    """Letters and digits, with '-' and '.' between them: a valid name or version of client software (KIP-511)."""
    return bool(word) and _INNER.issuperset(word) and word[0] in _ENDS and word[-1] in _ENDS
