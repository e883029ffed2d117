"""UpdateFeatures: the levels of features, raised and lowered."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.cluster import UpdateFeaturesRequest
from tests.conformance.dialogues import dialogue
from tests.conformance.speaker import Speaker

ELR = "eligible.leader.replicas.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
ASKING = ApiVersionsRequest(client_software_name="dialogue", client_software_version="1.0")

Update = tuple[str, int] | tuple[str, int, int]


def updating(client: Speaker, *updates: Update, validate_only: bool = False) -> UpdateFeaturesRequest:
    """A request for these levels; before version 1 whoever does not upgrade allows a downgrade."""
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


def try_out(client: Speaker, *updates: Update) -> None:
    """Has the updates judged; the words of a refusal are Kafka's, so they are noted."""

    def outcome(answer: object) -> object:
        return answer, getattr(answer, "error_message", None)

    client.ask(updating(client, *updates, validate_only=True), noting=outcome)


@dialogue(ApiKey.UPDATE_FEATURES, 0, 2)
def levels_as_they_are(client: Speaker) -> None:
    try_out(client)
    try_out(client, ("metadata.version", 30))
    try_out(client, ("group.version", 1), ("group.version", 1))
    try_out(client, ("kraft.version", 0))


@dialogue(ApiKey.UPDATE_FEATURES, 0, 2)
def levels_that_nobody_supports(client: Speaker) -> None:
    for update in (("foo", 1), ("foo", 0), ("", 1), ("metadata.version", 31), ("metadata.version", 5)):
        try_out(client, update)
    for level in (2, -1, 32767):
        try_out(client, ("group.version", level))
    try_out(client, ("kraft.version", 2))
    try_out(client, ("share.version", 1), ("group.version", 2))


@dialogue(ApiKey.UPDATE_FEATURES, 0, 2)
def downgrades_that_are_refused(client: Speaker) -> None:
    try_out(client, ("group.version", 0))
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        try_out(client, ("metadata.version", 29, kind))
        try_out(client, ("metadata.version", 7, kind))
        try_out(client, ("metadata.version", 31, kind))


@dialogue(ApiKey.UPDATE_FEATURES, 1, 2)
def kinds_of_updates_that_there_are_not(client: Speaker) -> None:
    for kind in (0, 4, -1, 127):
        try_out(client, ("metadata.version", 29, kind))
        try_out(client, ("group.version", 1, kind))


@dialogue(ApiKey.UPDATE_FEATURES, 1, 2)
def what_is_only_tried_out_changes_nothing(client: Speaker) -> None:
    try_out(client, ("streams.version", 0, SAFE_DOWNGRADE))
    client.note(finalized(client))


@dialogue(ApiKey.UPDATE_FEATURES, 1, 2)
def down_and_up_again(client: Speaker) -> None:
    for update in (("share.version", 0, SAFE_DOWNGRADE), ("share.version", 1)):
        change(client, update)
    change(client, (ELR, 0, UNSAFE_DOWNGRADE), ("group.version", 0, SAFE_DOWNGRADE))
    change(client, (ELR, 1), ("group.version", 1))


def change(client: Speaker, *updates: Update) -> None:
    """Makes the updates; Kafka's broker hears of them a little later than it answers."""
    client.ask(updating(client, *updates))
    expected = {update[0]: update[1] for update in updates}
    client.until(ASKING, lambda answer: expected.items() <= levels(answer).items(), 4)
    client.note(finalized(client))


def finalized(client: Speaker) -> dict[str, int]:
    """The levels in force, as ApiVersions tells them; 0 where it leaves a feature out."""
    answer = client.peer.ask(ASKING, 4)
    assert isinstance(answer, ApiVersionsResponse)
    return levels(answer)


def levels(answer: ApiVersionsResponse) -> dict[str, int]:
    """The levels in an answer."""
    found = {feature.name: 0 for feature in answer.supported_features}
    found |= {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return dict(sorted(found.items()))
