"""UpdateFeatures: the levels of features, raised and lowered."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.cluster import UpdateFeaturesRequest
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue

ELR = "eligible.leader.replicas.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
ASKING = ApiVersionsRequest(client_software_name="dialogue", client_software_version="1.0")

Update = tuple[str, int] | tuple[str, int, int]


def updating(client: DialogueClient, *updates: Update, validate_only: bool = False) -> UpdateFeaturesRequest:
    """A request for these levels; in version 0 an update that is no upgrade allows a downgrade."""
    request = UpdateFeaturesRequest(timeout_ms=10_000)
    for name, level, kind in ((*update, UPGRADE)[:3] for update in updates):
        key = UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level)
        if client.version == 0:
            key.allow_downgrade = kind != UPGRADE
        else:
            key.upgrade_type = kind
        request.feature_updates.append(key)
    request.validate_only = validate_only and client.version > 0
    return request


def validate(client: DialogueClient, *updates: Update) -> None:
    """Validates the updates without applying them; notes the error message too, which must be Kafka's."""

    def outcome(answer: object) -> object:
        return answer, getattr(answer, "error_message", None)

    client.request(updating(client, *updates, validate_only=True), noting=outcome)


@dialogue(ApiKey.UPDATE_FEATURES, 0, 2)
def unchanged_levels(client: DialogueClient) -> None:
    validate(client)
    validate(client, ("metadata.version", 30))
    validate(client, ("group.version", 1), ("group.version", 1))
    validate(client, ("kraft.version", 0))


@dialogue(ApiKey.UPDATE_FEATURES, 0, 2)
def unsupported_levels(client: DialogueClient) -> None:
    for update in (("foo", 1), ("foo", 0), ("", 1), ("metadata.version", 31), ("metadata.version", 5)):
        validate(client, update)
    for level in (2, -1, 32767):
        validate(client, ("group.version", level))
    validate(client, ("kraft.version", 2))
    validate(client, ("share.version", 1), ("group.version", 2))


@dialogue(ApiKey.UPDATE_FEATURES, 0, 2)
def rejected_downgrades(client: DialogueClient) -> None:
    validate(client, ("group.version", 0))
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        validate(client, ("metadata.version", 29, kind))
        validate(client, ("metadata.version", 7, kind))
        validate(client, ("metadata.version", 31, kind))


@dialogue(ApiKey.UPDATE_FEATURES, 1, 2)
def unknown_update_types(client: DialogueClient) -> None:
    for kind in (0, 4, -1, 127):
        validate(client, ("metadata.version", 29, kind))
        validate(client, ("group.version", 1, kind))


@dialogue(ApiKey.UPDATE_FEATURES, 1, 2)
def validation_changes_nothing(client: DialogueClient) -> None:
    validate(client, ("streams.version", 0, SAFE_DOWNGRADE))
    client.note(finalized(client))


@dialogue(ApiKey.UPDATE_FEATURES, 1, 2)
def downgrade_and_upgrade(client: DialogueClient) -> None:
    for update in (("share.version", 0, SAFE_DOWNGRADE), ("share.version", 1)):
        change(client, update)
    change(client, (ELR, 0, UNSAFE_DOWNGRADE), ("group.version", 0, SAFE_DOWNGRADE))
    change(client, (ELR, 1), ("group.version", 1))


def change(client: DialogueClient, *updates: Update) -> None:
    """Applies the updates and waits for them: Kafka responds before its broker applies them."""
    client.request(updating(client, *updates))
    expected = {update[0]: update[1] for update in updates}
    client.request_until(ASKING, lambda answer: expected.items() <= levels(answer).items(), 4)
    client.note(finalized(client))


def finalized(client: DialogueClient) -> dict[str, int]:
    """The levels in force by ApiVersions; 0 for a feature that it omits."""
    answer = client.connection.request(ASKING, 4)
    assert isinstance(answer, ApiVersionsResponse)
    return levels(answer)


def levels(answer: ApiVersionsResponse) -> dict[str, int]:
    """The levels in an ApiVersions response."""
    found = {feature.name: 0 for feature in answer.supported_features}
    found |= {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return dict(sorted(found.items()))
