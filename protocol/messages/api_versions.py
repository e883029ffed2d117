"""ApiVersions: the APIs and versions of the broker, the first request of a client."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int16, int32, int64, string


class ApiVersionsRequest(Message, api_key=18, versions="0-4", flexible="3+"):
    """The first request of a client, with the name of its software (KIP-511)."""

    client_software_name: str = string(versions="3+", ignorable=True)
    client_software_version: str = string(versions="3+", ignorable=True)


class ApiVersionsResponse(Message, api_key=18, versions="0-4", flexible="3+"):
    """The APIs with their versions, and the features that the cluster has finalized (KIP-584)."""

    class ApiVersion(Struct):
        api_key: int = int16()
        min_version: int = int16()
        max_version: int = int16()

    class SupportedFeatureKey(Struct):
        name: str = string(versions="3+")
        min_version: int = int16(versions="3+")
        max_version: int = int16(versions="3+")

    class FinalizedFeatureKey(Struct):
        name: str = string(versions="3+")
        max_version_level: int = int16(versions="3+")
        min_version_level: int = int16(versions="3+")

    error_code: int = int16()
    api_keys: list[ApiVersionsResponse.ApiVersion] = array("ApiVersion")
    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = array(
        "SupportedFeatureKey", versions="3+", ignorable=True, tag=0, tagged="3+"
    )
    finalized_features_epoch: int = int64(versions="3+", default=-1, ignorable=True, tag=1, tagged="3+")
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = array(
        "FinalizedFeatureKey", versions="3+", ignorable=True, tag=2, tagged="3+"
    )
    zk_migration_ready: bool = bool_(versions="3+", ignorable=True, tag=3, tagged="3+")
