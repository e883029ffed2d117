"""Formatter: makes directories the log directories of a node, as Kafka's storage tool does.

Each gets `bootstrap.checkpoint`, then `meta.properties`: with the latter it is formatted. The metadata directory of a
node whose quorum is in the log (kraft.version 1) gets a first snapshot before, which names the voters.
Error texts are those of Kafka's org.apache.kafka.metadata.storage.Formatter and kafka.tools.StorageTool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.broker.metadata.bootstrap import bootstrap_records, write_bootstrap
from barnabas.broker.metadata.quorum import InitialVoter, voters_record
from barnabas.broker.metadata.snapshot_files import Control, SnapshotId, write_snapshot
from barnabas.broker.metadata.versions import (
    FEATURES,
    FEATURES_BY_NAME,
    KRAFT_VERSION,
    LATEST_PRODUCTION,
    LATEST_TESTING,
    METADATA_VERSION,
    METADATA_VERSIONS,
    MINIMUM,
    SCRAM,
    MetadataVersion,
    UnknownVersionError,
    metadata_version,
    parse_version,
)
from barnabas.broker.startup.scram_arguments import FormatterError, parse_scram
from barnabas.protocol.messages.cluster_records import UserScramCredentialRecord
from barnabas.protocol.messages.topic_records import FeatureLevelRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid, random_uuid, uuid_from_string, uuid_to_string
from barnabas.storage.env import Env, make_directory
from barnabas.storage.errors import InconsistentMetadataError
from barnabas.storage.log.checkpoints import MetaProperties
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC

FIRST_SNAPSHOT: Final = SnapshotId(0, 0)


class FormatPlan(NamedTuple):
    """The options of a format.

    `voters_configured`: the configuration names the voters (controller.quorum.voters). `no_initial_controllers`: the
    log is not to name them yet; with `initial_voters` it does from the beginning.
    """

    cluster_id: str
    node_id: int
    log_dirs: Sequence[str]
    metadata_log_dir: str
    controller_listener: str = "CONTROLLER"
    release_version: str | None = None
    features: Mapping[str, int] = {}
    scram: Sequence[str] = ()
    initial_voters: Sequence[InitialVoter] = ()
    no_initial_controllers: bool = False
    voters_configured: bool = False
    ignore_formatted: bool = False
    unstable: bool = False

    @property
    def has_dynamic_quorum(self) -> bool:
        """Whether the log is to name the voters, now or later."""
        return not self.voters_configured and (bool(self.initial_voters) or self.no_initial_controllers)


def parse_voters(text: str) -> list[InitialVoter]:
    """--initial-controllers: `id@host:port:directory,...`. Raises FormatterError."""
    voters = [_parse_voter(part) for part in text.strip().split(",") if part]
    if not voters:
        raise FormatterError("No voters given.")
    for voter in voters:
        if [other.node_id for other in voters].count(voter.node_id) > 1:
            raise FormatterError(f"Node id {voter.node_id} was specified more than once.")
    return voters


def _parse_voter(text: str) -> InitialVoter:
    node, at, rest = text.strip().partition("@")
    if not at:
        raise FormatterError("No @ found in dynamic voter string.")
    if not node:
        raise FormatterError("Invalid @ at beginning of dynamic voter string.")
    node_id = _number(node, "Failed to parse node id in dynamic voter string.")
    if node_id < 0:
        raise FormatterError(f"Invalid negative node id {node_id} in dynamic voter string.")
    host, rest = _host(rest)
    port_text, colon, directory = rest.partition(":")
    if not colon:
        raise FormatterError("No colon following port could be found.")
    port = _number(port_text, "Failed to parse port in dynamic voter string.")
    if not 0 <= port <= 65_535:
        raise FormatterError(f"Invalid port {port} in dynamic voter string.")
    try:
        return InitialVoter(node_id, uuid_from_string(directory), host, port)
    except ValueError:
        raise FormatterError("Failed to parse directory ID in dynamic voter string.") from None


def _host(text: str) -> tuple[str, str]:
    """The host in front of `text`, and what comes after the colon behind it."""
    if not text:
        raise FormatterError("No hostname found after node id.")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise FormatterError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise FormatterError("Port section must start with a colon.")
        return host, rest[1:]
    host, colon, rest = text.partition(":")
    if not colon:
        raise FormatterError("No colon following hostname could be found.")
    return host, rest


def _number(text: str, message: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise FormatterError(message) from None


class Formatter:
    """One format. `output` gets each line that the tool prints."""

    def __init__(self, plan: FormatPlan, env: Env, output: Callable[[str], None]) -> None:
        self._plan = plan
        self._env = env
        self._output = output

    def run(self) -> None:
        """Formats. Raises FormatterError, OSError."""
        release = self._release()
        levels = self._levels(release)
        records = bootstrap_records(levels, self._credentials(release))
        formatted = self._formatted_dirs()
        if formatted and not self._plan.ignore_formatted:
            raise FormatterError(
                f"Log directory {next(iter(formatted))} is already formatted. "
                "Use --ignore-formatted to ignore this directory and format the others."
            )
        new = [path for path in sorted(set(self._plan.log_dirs)) if path not in formatted]
        if not new:
            self._output("All of the log directories are already formatted.")
            return
        self._output(_bootstrap_line(records, release))
        for path in new:
            self._format(path, release, records, levels[KRAFT_VERSION])

    # -- what to write --

    def _release(self) -> MetadataVersion:
        plan = self._plan
        asked = plan.features.get(METADATA_VERSION)
        if asked is None and plan.release_version is None:
            return METADATA_VERSIONS[-1] if plan.unstable else _version(LATEST_PRODUCTION)
        if plan.release_version is not None:
            if asked is not None:
                raise FormatterError(
                    f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity."
                )
            return _parse_release(plan.release_version, unstable=plan.unstable)
        release = _version(asked or 0)
        if release.level > LATEST_PRODUCTION and not plan.unstable:
            raise FormatterError(f"{METADATA_VERSION} {release.name} is not yet stable.")
        return release

    def _levels(self, release: MetadataVersion) -> dict[str, int]:
        """The level of every feature: the requested one, else the default of the release."""
        asked = dict(self._plan.features)
        for name in asked:
            if name not in FEATURES_BY_NAME and name != METADATA_VERSION:
                known = ", ".join(sorted(FEATURES_BY_NAME))
                raise FormatterError(f"Unsupported feature: {name}. Supported features are: {known}")
        levels = {feature.name: feature.default_level(release.level) for feature in FEATURES}
        levels |= asked
        levels[METADATA_VERSION] = release.level
        levels[KRAFT_VERSION] = self._kraft_version(asked.get(KRAFT_VERSION))
        for feature in FEATURES:
            _check_dependencies(feature.name, levels)
        return levels

    def _kraft_version(self, asked: int | None) -> int:
        dynamic = self._plan.has_dynamic_quorum
        if asked == 0 and dynamic:
            raise FormatterError(
                "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
                "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try "
                "removing the --feature flag for kraft.version."
            )
        if asked and not dynamic:
            raise FormatterError(
                f"Cannot set kraft.version to {asked} unless controller.quorum.voters is empty and one of the flags "
                "--standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers "
                "support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and "
                "removing controller.quorum.voters."
            )
        return int(dynamic) if asked is None else asked

    def _credentials(self, release: MetadataVersion) -> list[Message]:
        if self._plan.scram and release.level < SCRAM:
            raise FormatterError(
                f"SCRAM is only supported in {METADATA_VERSION} {_version(SCRAM).name} or later."
            )
        return [parse_scram(argument, self._env.random_bytes) for argument in self._plan.scram]

    # -- where --

    def _formatted_dirs(self) -> dict[str, MetaProperties]:
        """The directories that have meta.properties; rejects those of another node."""
        found: dict[str, MetaProperties] = {}
        for path in sorted(set(self._plan.log_dirs)):
            try:
                properties = MetaProperties.read(self._env, path)
            except InconsistentMetadataError as error:
                raise FormatterError(str(error)) from error
            if properties is not None:
                self._check(path, properties)
                found[path] = properties
        return found

    def _check(self, path: str, properties: MetaProperties) -> None:
        plan = self._plan
        if properties.cluster_id != plan.cluster_id:
            raise FormatterError(
                f"Invalid cluster.id in: {path}/meta.properties. "
                f"Expected {plan.cluster_id}, but read {properties.cluster_id}"
            )
        if properties.node_id != plan.node_id:
            raise FormatterError(
                f"Stored node id {properties.node_id} doesn't match previous node id {plan.node_id} in "
                f"{path}/meta.properties. If you moved your data, make sure your configured node id matches. If you "
                "intend to create a new node, you should remove all data in your data directories."
            )

    def _format(
        self, path: str, release: MetadataVersion, records: Sequence[Message], kraft_version: int
    ) -> None:
        kind, directory_id = self._kind(path)
        self._output(f"Formatting {kind} {path} with {METADATA_VERSION} {release.name}.")
        make_directory(self._env, path)
        write_bootstrap(self._env, path, records)
        if self._plan.initial_voters and path == self._plan.metadata_log_dir:
            self._write_voters(path, kraft_version)
        text = uuid_to_string(directory_id)
        MetaProperties(self._plan.cluster_id, self._plan.node_id, text).write(self._env, path)

    def _kind(self, path: str) -> tuple[str, Uuid]:
        """The kind of a directory, and its id: a voter's has the id that the log names."""
        new_id = random_uuid(self._env.random_bytes)
        if path != self._plan.metadata_log_dir:
            return "data directory", new_id
        if not self._plan.initial_voters:
            return "metadata directory", new_id
        for voter in self._plan.initial_voters:
            if voter.node_id == self._plan.node_id:
                return "dynamic metadata voter directory", voter.directory_id
        return "dynamic metadata directory", new_id

    def _write_voters(self, path: str, kraft_version: int) -> None:
        directory = f"{path}/{CLUSTER_METADATA_TOPIC}-0"
        make_directory(self._env, directory)
        write_snapshot(
            self._env,
            directory,
            FIRST_SNAPSHOT,
            (),
            metadata_version=LATEST_PRODUCTION,
            timestamp_ms=self._env.now_ms(),
            control=Control(
                kraft_version, voters_record(self._plan.initial_voters, self._plan.controller_listener)
            ),
        )


def _version(level: int) -> MetadataVersion:
    found = metadata_version(level)
    if found is None:
        raise FormatterError(
            f"No MetadataVersion with feature level {level}. "
            f"Valid feature levels are from {MINIMUM} to {LATEST_TESTING}."
        )
    return found


def _parse_release(text: str, *, unstable: bool) -> MetadataVersion:
    try:
        return parse_version(text, unstable=unstable)
    except UnknownVersionError as error:
        raise FormatterError(str(error)) from None


def _check_dependencies(name: str, levels: Mapping[str, int]) -> None:
    level = next((one for one in FEATURES_BY_NAME[name].levels if one.level == levels[name]), None)
    if level is None:
        raise FormatterError(f"No feature:{name} with feature level {levels[name]}")
    for needed, at_least in level.dependencies.items():
        if levels.get(needed, 0) < at_least:
            raise FormatterError(
                f"{name} could not be set to {levels[name]} because it depends on {needed} level {at_least}"
            )


def _bootstrap_line(records: Sequence[Message], release: MetadataVersion) -> str:
    """The first records of the cluster, as Kafka's tool prints them, without the secrets of users."""
    shown = ", ".join(f"ApiMessageAndVersion({_shown(record)} at version 0)" for record in records)
    return (
        f"Bootstrap metadata: BootstrapMetadata(records=[{shown}], metadataVersionLevel={release.level}, "
        "source=format command)"
    )


def _shown(record: Message) -> str:
    match record:
        case FeatureLevelRecord():
            return f"FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level})"
        case UserScramCredentialRecord():
            return (
                f"UserScramCredentialRecord(name='{record.name}', mechanism={record.mechanism}, salt=..., "
                f"storedKey=..., serverKey=..., iterations={record.iterations})"
            )
    return type(record).__name__
