"""The effective configuration of a broker, and the layers that it was resolved from."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from barnabas.config import environment, layers, profiles
from barnabas.config.catalogue import BROKER_KEYS, DYNAMIC_BROKER_KEYS
from barnabas.config.catalogue.barnabas import BARNABAS_PROFILE, BARNABAS_QUEUED_MAX_REQUEST_BYTES
from barnabas.config.catalogue.controller import CONTROLLER_LISTENER_NAMES, METADATA_LOG_DIR
from barnabas.config.catalogue.log import LOG_DIR, LOG_DIRS
from barnabas.config.catalogue.network import (
    ADVERTISED_LISTENERS,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LISTENERS,
    QUEUED_MAX_REQUEST_BYTES,
)
from barnabas.config.catalogue.replication import INTER_BROKER_LISTENER_NAME, SECURITY_INTER_BROKER_PROTOCOL
from barnabas.config.catalogue.server import BROKER_ID, NODE_ID, PROCESS_ROLES
from barnabas.config.checks import UnreadableValueError, relation_errors
from barnabas.config.directories import directory_errors
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import InvalidConfigError, Setting, Source
from barnabas.config.listeners import (
    Listener,
    build_listeners,
    check_inter_broker_listener,
)
from barnabas.config.member import is_member
from barnabas.config.messages import (
    LISTENER_KEYS,
    ConfigMessage,
    MessageKind,
    key_of_listener,
    message_about,
    repeated,
)

T = TypeVar("T")

FIRST_NODE_ID = 1


class BrokerConfig:
    """The resolved configuration of a broker: `config[NUM_PARTITIONS]` is the effective value, typed by its key.

    `BrokerConfig()` is Apache Kafka's defaults, `BrokerConfig.load(...)` what `barnabas serve` starts from. Keys are
    looked up by constant (config[KEY]) or by name (value_of). `messages` are for the user; errors raise
    InvalidConfigError, all of them at once.

    All parts of a broker share one such object and read it each time. A change of dynamic settings replaces all of its
    values at once (`overlaid`, `adopt`) and increments `generation`, by which caches of derived values notice it.
    """

    def __init__(
        self, settings: Iterable[Setting] = (), *, profile: str = "kafka", cluster_id: str | None = None
    ) -> None:
        """Resolves settings, weakest first; raises InvalidConfigError naming every invalid one."""
        self.profile = profile
        self.cluster_id = cluster_id
        self.generation = 0
        self.reconfiguration_checks: list[Callable[[BrokerConfig], None]] = []
        """Called with a changed configuration before it is stored: each raises ConfigError for one that its part of
        the broker cannot follow (Kafka's validateReconfiguration)."""
        self._layers: dict[
            str, list[Setting]
        ] = {}  # weakest first; of the static ones only the effective one
        self._values: dict[str, Any] = {}
        self.unknown: dict[str, Setting] = {}
        self.messages: list[ConfigMessage] = []
        errors = list(self._resolve(settings))
        self._keep_messages_of_role()
        self._agree_on_node_id()
        sound = _SoundValues(self, {error.key for error in errors})
        self.listeners: list[Listener] = self._listeners(sound, errors)
        errors += [error.at(self.place(BROKER_KEYS[error.key])) for error in relation_errors(sound)]
        if errors:
            raise InvalidConfigError(errors, self.messages)

    @classmethod
    def load(
        cls,
        file_name: str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        overrides: Iterable[str] = (),
    ) -> "BrokerConfig":
        """The configuration from a server.properties file, if any, KAFKA_* variables and `key=value` overrides.

        Raises InvalidConfigError, and OSError when the file cannot be read.
        """
        data = None
        if file_name is not None:
            with open(file_name, "rb") as file:
                data = file.read()
        return cls.of(data, file_name=file_name or "", environ=environ, overrides=overrides)

    @classmethod
    def of(
        cls,
        data: bytes | None,
        *,
        file_name: str = "server.properties",
        environ: Mapping[str, str] | None = None,
        overrides: Iterable[str] = (),
    ) -> "BrokerConfig":
        """Like load(), from the bytes of the file; None for no file."""
        environ = environ or {}
        explicit = list(layers.from_file(file_name, data)) if data is not None else []
        explicit += layers.from_environment(environ)
        explicit += layers.from_overrides(overrides)
        is_own = data is None and not _asks_for_membership(explicit)
        profile = _chosen_profile(explicit) or (profiles.WITHOUT_FILE if is_own else profiles.WITH_FILE)
        settings = [*layers.from_profile(profile), *explicit]
        config = cls(settings, profile=profile, cluster_id=environment.cluster_id_from(environ))
        dirs_key = LOG_DIRS if config[LOG_DIRS] else LOG_DIR
        if errors := list(
            directory_errors(config.log_dirs, config[METADATA_LOG_DIR], dirs_key, config.place)
        ):
            raise InvalidConfigError(errors, config.messages)
        return config

    def __getitem__(self, key: ConfigKey[T]) -> T:
        value: T = self._values.get(key.name, key.default)
        return value

    def value_of(self, name: str) -> Any:
        """The effective value of a broker key by name, for code that is generic over keys."""
        return self._values[name] if name in self._values else BROKER_KEYS[name].default

    def listener_setting(
        self, listener: str, key: ConfigKey[Any], mechanism: str | None = None
    ) -> Setting | None:
        """Where a key is set for this listener: for one of its mechanisms, for all of them, or for all listeners.

        None where it has its default.
        """
        prefix = f"listener.name.{listener.lower()}."
        names = [] if mechanism is None else [f"{prefix}{mechanism.lower()}.{key.name}"]
        for name in (*names, prefix + key.name):
            if name in self.unknown:
                return self.unknown[name]
        return self.setting(key)

    def listener_value(self, listener: str, key: ConfigKey[T], mechanism: str | None = None) -> T:
        """The value of a key for one listener, or one of its mechanisms; see `listener_setting`.

        Raises ConfigError, which names the setting.
        """
        setting = self.listener_setting(listener, key, mechanism)
        if setting is None or setting.key == key.name:
            return self[key]
        try:
            return key.parse(setting.text)
        except ConfigError as error:
            raise ConfigError(setting.key, error.value, error.requirement, setting.place) from None

    def layers(self, name: str) -> Sequence[Setting]:
        """Every setting of a key, known or not, strongest first: this broker's dynamic one, the cluster's, the static
        one. Of the static layers only the effective one is here."""
        return self._layers.get(name, ())[::-1]

    def setting(self, key: ConfigKey[Any]) -> Setting | None:
        """Where and how the key is set; None when it has its default."""
        settings = self._layers.get(key.name)
        return settings[-1] if settings else None

    def is_set(self, key: ConfigKey[Any]) -> bool:
        """True when any layer sets the key, even to its default."""
        return key.name in self._layers

    def source(self, key: ConfigKey[Any]) -> Source:
        """The layer that the effective value comes from."""
        setting = self.setting(key)
        return Source.DEFAULT if setting is None else setting.source

    def place(self, key: ConfigKey[Any]) -> str:
        """The place that the effective value comes from, for messages."""
        setting = self.setting(key)
        return "default" if setting is None else setting.place

    def settings(self) -> Iterator[Setting]:
        """The effective setting of each known key that any layer sets, by name."""
        for name in sorted(self._layers):
            if name not in self.unknown:
                yield self._layers[name][-1]

    # ---- dynamic layers

    def dynamic_settings(self, source: Source) -> Iterator[Setting]:
        """The settings of one dynamic layer, unknown keys included."""
        for settings in self._layers.values():
            yield from (setting for setting in settings if setting.source is source)

    def overlaid(self, settings: Iterable[Setting]) -> "BrokerConfig":
        """The configuration with these dynamic settings, weakest first, over static ones. Raises InvalidConfigError."""
        static = [first for first, *_ in self._layers.values() if not first.source.is_dynamic]
        return BrokerConfig([*static, *settings], profile=self.profile, cluster_id=self.cluster_id)

    def adopt(self, other: "BrokerConfig") -> None:
        """Takes over the values of `other`, for all holders of this object. The messages stay those of the start."""
        self._layers = other._layers
        self._values = other._values
        self.unknown = other.unknown
        self.listeners = other.listeners
        self.generation += 1

    @property
    def warnings(self) -> list[ConfigMessage]:
        """The messages that `config check --strict` fails on."""
        return [message for message in self.messages if message.is_warning]

    @property
    def is_member(self) -> bool:
        """Whether the node is a member of a cluster that others control; else it is broker and controller, alone."""
        return is_member(self[PROCESS_ROLES])

    @property
    def inter_broker_listener(self) -> str:
        """The listener by which brokers reach each other; named after the security protocol where it has no name."""
        return (self[INTER_BROKER_LISTENER_NAME] or self[SECURITY_INTER_BROKER_PROTOCOL]).upper()

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The data directories: log.dirs, or log.dir when that is not set."""
        return self[LOG_DIRS] or self[LOG_DIR]

    @property
    def max_request_bytes_in_flight(self) -> int:
        """The bound on the memory of requests in flight, which always exists."""
        bound = self[QUEUED_MAX_REQUEST_BYTES]
        return bound if bound > 0 else self[BARNABAS_QUEUED_MAX_REQUEST_BYTES]

    @property
    def node_id(self) -> int | None:
        """The configured node id; None when nothing sets it (then settle_node_id decides)."""
        return self[NODE_ID]

    def settle_node_id(self, stored: int | None, directory: str) -> int:
        """Decides the node id, given the one that the data directory was formatted with, and remembers it.

        Raises InvalidConfigError when the configuration asks for another one than is stored.
        """
        configured = self[NODE_ID]
        if configured is None:
            configured = FIRST_NODE_ID if stored is None else stored
            place = "default" if stored is None else f"{directory}/meta.properties"
            self._set(NODE_ID, configured, Setting(NODE_ID.name, str(configured), Source.PROFILE, place))
            self._agree_on_node_id()
        if stored is not None and configured != stored:
            advice = f"must be {stored}, or unset: {directory} was formatted with node.id={stored}"
            raise InvalidConfigError(
                [ConfigError(NODE_ID.name, str(configured), advice, self.place(NODE_ID))]
            )
        return configured

    def _resolve(self, settings: Iterable[Setting]) -> Iterator[ConfigError]:
        """Stores the effective settings; yields the errors. Replaced settings are not checked."""
        for setting in settings:
            below = self._layers.setdefault(setting.key, [])
            earlier = below[-1] if below else None
            if earlier is not None and earlier.source is setting.source is Source.FILE:
                self.messages.append(repeated(earlier, setting))
            if earlier is not None and not setting.source.is_dynamic:
                below.pop()
            below.append(setting)
        for name, of_key in self._layers.items():
            setting = of_key[-1]
            key = BROKER_KEYS.get(name)
            silent = setting.source is Source.PROFILE or setting.source.is_dynamic
            if not silent and (message := message_about(setting, key)):
                self.messages.append(message)
            if key is None and setting.source.is_dynamic:
                key = DYNAMIC_BROKER_KEYS.get(name)
            try:
                if key is None:
                    self.unknown[name] = setting
                    _check_listener_value(setting)
                else:
                    self._values[name] = key.parse(setting.text)
            except ConfigError as error:
                yield error.at(setting.place)

    def _keep_messages_of_role(self) -> None:
        """Drops what is only true of a node that is alone."""
        if PROCESS_ROLES.name in self._values and self.is_member:
            self.messages = [
                message
                for message in self.messages
                if message.kind is not MessageKind.INERT
                or message.key not in BROKER_KEYS
                or not BROKER_KEYS[message.key].use.in_cluster
            ]

    def _set(self, key: ConfigKey[T], value: T, setting: Setting) -> None:
        self._values[key.name] = value
        self._layers[key.name] = [setting]

    def _agree_on_node_id(self) -> None:
        """Gives node.id and broker.id the same value when only one is set (AbstractKafkaConfig.populateSynonyms)."""
        node, broker = self.setting(NODE_ID), self.setting(BROKER_ID)
        if node is None and broker is not None and self[BROKER_ID] >= 0:
            self._set(
                NODE_ID, self[BROKER_ID], Setting(NODE_ID.name, broker.text, broker.source, broker.place)
            )
        elif broker is None and node is not None and self[NODE_ID] is not None:
            self._set(
                BROKER_ID, self[NODE_ID] or 0, Setting(BROKER_ID.name, node.text, node.source, node.place)
            )

    def _listeners(self, sound: "_SoundValues", errors: list[ConfigError]) -> list[Listener]:
        try:
            listeners, advertised = sound[LISTENERS], sound[ADVERTISED_LISTENERS]
            controllers, inter_broker = sound[CONTROLLER_LISTENER_NAMES], sound[INTER_BROKER_LISTENER_NAME]
            protocol_map = sound[LISTENER_SECURITY_PROTOCOL_MAP]
            opened = build_listeners(listeners, advertised, protocol_map, controllers or ())
            if inter_broker is not None and sound.is_set(SECURITY_INTER_BROKER_PROTOCOL):
                raise INTER_BROKER_LISTENER_NAME.error(
                    inter_broker,
                    f"unset where {SECURITY_INTER_BROKER_PROTOCOL.name} is set: one of them says it",
                )
            if inter_broker is not None:
                check_inter_broker_listener(inter_broker, opened)
            elif is_member(sound[PROCESS_ROLES]):
                check_inter_broker_listener(sound[SECURITY_INTER_BROKER_PROTOCOL], opened)
        except UnreadableValueError:
            return []
        except ConfigError as error:
            errors.append(error.at(self.place(BROKER_KEYS[error.key])))
            return []
        return opened


class _SoundValues:
    """The valid values of a configuration; reading an invalid one raises. So every error is reported at once, but no
    consequence of another error.
    """

    def __init__(self, config: BrokerConfig, wrong: set[str]) -> None:
        self._config = config
        self._wrong = wrong

    def __getitem__(self, key: ConfigKey[T]) -> T:
        if key.name in self._wrong:
            raise UnreadableValueError(key.name)
        return self._config[key]

    def is_set(self, key: ConfigKey[Any]) -> bool:
        return self._config.is_set(key)


def _check_listener_value(setting: Setting) -> None:
    """Raises ConfigError for an invalid value of one listener, where the key acts."""
    key = key_of_listener(setting.key)
    if key is not None and key.name in LISTENER_KEYS:
        key.parse(setting.text)


def _asks_for_membership(settings: Iterable[Setting]) -> bool:
    """Whether the strongest layer makes the node a member of a cluster: one developer's defaults are not for it."""
    roles = [setting.text.strip() for setting in settings if setting.key == PROCESS_ROLES.name]
    return bool(roles) and is_member((roles[-1],))


def _chosen_profile(settings: Iterable[Setting]) -> str | None:
    """The profile that the strongest layer names; None when none does, or names an unknown one (an error later)."""
    named = [setting.text.strip() for setting in settings if setting.key == BARNABAS_PROFILE.name]
    return named[-1] if named and named[-1] in profiles.PROFILES else None
