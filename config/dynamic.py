"""Broker configuration that changes while the broker runs: its checks, and its application (KIP-226).

Settings of the whole cluster's default and of this broker lie in the metadata, and override those that the broker was
started with. `apply_dynamic_settings` applies them to a broker's configuration; an invalid one, in a directory that
another version wrote for example, is ignored and reported, and the next weaker value applies. `check_dynamic_settings`
checks them before any is stored. Source: DynamicBrokerConfig and the validateReconfiguration of what it reconfigures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from barnabas.config import layers
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import (
    BROKER_KEYS,
    DYNAMIC_BROKER_KEYS,
    log,
    metrics,
    network,
    replication,
    server,
    tiering,
    tls,
    topic,
)
from barnabas.config.keys import ConfigError, ConfigKey, DynamicMode
from barnabas.config.layers import InvalidConfigError, Setting, Source
from barnabas.config.log_config import broker_value
from barnabas.config.values import ConfigType

LISTENER_PREFIX = "listener.name."

# Keys that may be set for one listener only, with the prefix (SslConfigs.RECONFIGURABLE_CONFIGS).
STORE_KEYS = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

# One step may halve or double a number of workers at most, so that a typing error is not an outage.
WORKER_COUNTS: tuple[ConfigKey[int], ...] = (
    log.LOG_CLEANER_THREADS,
    log.NUM_RECOVERY_THREADS_PER_DATA_DIR,
    network.NUM_NETWORK_THREADS,
    replication.NUM_REPLICA_FETCHERS,
    server.BACKGROUND_THREADS,
    server.NUM_IO_THREADS,
    tiering.REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE,
    tiering.REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE,
    tiering.REMOTE_LOG_MANAGER_FOLLOWER_THREAD_POOL_SIZE,
    tiering.REMOTE_LOG_READER_THREADS,
)

# These can be set for one listener and for the whole cluster at once.
_CLUSTER_WIDE_OF_LISTENERS = frozenset(
    {
        network.MAX_CONNECTIONS.name,
        network.MAX_CONNECTION_CREATION_RATE.name,
        network.NUM_NETWORK_THREADS.name,
    }
)


_CLASS_KEYS: tuple[ConfigKey[Any], ...] = (
    metrics.METRIC_REPORTERS,
    tls.PRINCIPAL_BUILDER_CLASS,
    tls.SSL_ENGINE_FACTORY_CLASS,
)

_AS_THE_WHOLE = -2
_LOCAL_RETENTION: tuple[tuple[ConfigKey[int], ConfigKey[int]], ...] = (
    (tiering.LOG_LOCAL_RETENTION_MS, topic.RETENTION_MS),
    (tiering.LOG_LOCAL_RETENTION_BYTES, topic.RETENTION_BYTES),
)


class SettingsWaitError(Exception):
    """A changed configuration cannot be checked yet: what it needs has to be fetched from another host first.

    `fetch(then)` has it fetched, and calls `then` on the event loop, where the check has its answer.
    """

    def __init__(self, fetch: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("what the settings need has to be fetched first")
        self.fetch = fetch


def dynamic_key(name: str) -> ConfigKey[Any] | None:
    """The key of a name that can be set while the broker runs, without a listener's prefix; None for others."""
    key = BROKER_KEYS.get(base_name(name)) or DYNAMIC_BROKER_KEYS.get(name)
    return None if key is None or key.dynamic is DynamicMode.READ_ONLY else key


def base_name(name: str) -> str:
    """The name without listener.name.<listener>., if it has that."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    _, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    return rest if dot else name


# ---- checks


def check_dynamic_settings(
    config: BrokerConfig,
    texts: Mapping[str, str],
    others: Mapping[str, str],
    *,
    per_broker: bool,
    asks_parts: bool = True,
) -> None:
    """Checks `texts` as the dynamic settings of this broker, or of the cluster's default; `others` are those of the
    other of the two. Unknown names may be set, as in Kafka.

    With `asks_parts` the broker's parts check them, too, which may read files, load classes and connect to an identity
    provider. Raises ConfigError or InvalidConfigError for invalid ones, and SettingsWaitError.
    """
    _check_modes(texts, per_broker=per_broker)
    others = sound_settings(others, per_broker=not per_broker)
    of_cluster, of_broker = (others, texts) if per_broker else (texts, others)
    candidate = config.overlaid(
        [*layers.from_cluster_default(of_cluster), *layers.from_this_broker(of_broker)]
    )
    _check_worker_counts(config, candidate)
    _check_classes(config, candidate)
    _check_limits(config, candidate)
    _check_local_retention(config, candidate)
    _check_listeners(config, candidate)
    for check in config.reconfiguration_checks if asks_parts else ():
        check(candidate)


def sound_settings(texts: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """The stored settings that are valid by themselves; the others are ignored."""
    make = layers.from_this_broker if per_broker else layers.from_cluster_default
    return {setting.key: setting.text for setting in _sound_by_themselves(make(texts))[0]}


def _check_modes(texts: Mapping[str, str], *, per_broker: bool) -> None:
    _check_none(
        texts,
        _is_read_only,
        "Cannot update these configs dynamically",
        "cannot change while the broker runs; it is set where the broker is started",
    )
    _check_none(
        texts,
        STORE_KEYS.__contains__,
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        f"is set for one listener, with {LISTENER_PREFIX}<name>. in front of it",
    )
    for name, text in texts.items():
        key = dynamic_key(name)
        if key is not None:
            key.parse(text)
    if not per_broker:
        _check_none(
            texts,
            _is_of_one_broker,
            "Cannot update these configs at default cluster level, broker id must be specified",
            "is set for one broker; there is no default of it for the whole cluster",
        )


def _check_none(texts: Mapping[str, str], is_wrong: Callable[[str], bool], phrase: str, why: str) -> None:
    """Raises ConfigError for invalid names: the error names the first, Kafka's phrase all."""
    wrong = [name for name in texts if is_wrong(name)]
    if not wrong:
        return
    raise _rejection(wrong[0], texts[wrong[0]], why, f"{phrase}: [{', '.join(wrong)}]")


def _rejection(name: str, text: str, why: str, phrase: str | None = None) -> ConfigError:
    key = BROKER_KEYS.get(base_name(name))
    shown = "[hidden]" if key is None or key.sensitive else text
    return ConfigError(name, shown, why, phrase=phrase)


def _is_read_only(name: str) -> bool:
    key = BROKER_KEYS.get(name)
    return key is not None and key.dynamic is DynamicMode.READ_ONLY


def _is_of_one_broker(name: str) -> bool:
    base = base_name(name)
    of_listener = base != name and base not in _CLUSTER_WIDE_OF_LISTENERS
    key = BROKER_KEYS.get(name)
    return of_listener or (key is not None and key.dynamic is DynamicMode.PER_BROKER)


def _check_worker_counts(current: BrokerConfig, candidate: BrokerConfig) -> None:
    for key in WORKER_COUNTS:
        before, after = current[key], candidate[key]
        low, high = max(before // 2, 1), max(before * 2, 1)
        if before != after and not low <= after <= high:
            raise key.error(str(after), f"from {low} to {high}, half and double of what it is now, {before}")


def _check_classes(current: BrokerConfig, candidate: BrokerConfig) -> None:
    """Kafka takes names of classes that it can load. Here only its own defaults are accepted, which do nothing."""
    for key in _CLASS_KEYS:
        named = candidate.value_of(key.name)
        if named == current.value_of(key.name) or named == key.default:
            continue
        if key.type is ConfigType.CLASS or not set(named) <= set(key.default):
            raise key.error(
                key.format(named), "of classes that are there, and there is no JVM to load others into"
            )


def _check_limits(current: BrokerConfig, candidate: BrokerConfig) -> None:
    """A limit below 1 would close the broker to the client that has to raise it again."""
    for key in (network.MAX_CONNECTIONS, network.MAX_CONNECTION_CREATION_RATE):
        names = [None, *(listener.name for listener in candidate.listeners)]
        for name in names:
            limit = candidate[key] if name is None else candidate.listener_value(name, key)
            before = current[key] if name is None else current.listener_value(name, key)
            if limit != before and limit < 1:
                raise key.error(str(limit), "at least 1 where it is set while the broker runs")


def _check_local_retention(current: BrokerConfig, candidate: BrokerConfig) -> None:
    """Local retention of a tiered topic must not exceed its retention."""
    for local, whole in _LOCAL_RETENTION:
        limit, kept = candidate[local], broker_value(candidate, whole)
        if limit == current[local] and kept == broker_value(current, whole):
            continue
        if limit != _AS_THE_WHOLE and kept >= 0 and not 0 <= limit <= kept:
            raise local.error(
                str(limit), f"from 0 to what is kept at all, {kept}, or {_AS_THE_WHOLE} for that"
            )


def _check_open_listeners(current: BrokerConfig, candidate: BrokerConfig) -> None:
    """A listener keeps the settings that it was opened with, but for its stores and its limits of connections."""
    names = {listener.name for listener in candidate.listeners}
    for listener in current.listeners:
        before, after = _fixed_settings(current, listener.name), _fixed_settings(candidate, listener.name)
        if listener.name not in names or before == after:
            continue
        changed = next(name for name in {**after, **before} if before.get(name) != after.get(name))
        raise _rejection(
            changed,
            after.get(changed) or "",
            f"cannot change while listener {listener.name} is open; it acts for one that is opened, and at a start",
            f"Configs cannot be updated dynamically for existing listener {listener.name}, "
            "restart broker or create a new listener for update",
        )


def _fixed_settings(config: BrokerConfig, listener: str) -> dict[str, str]:
    """The settings of one listener that do not change while it is open, by their names."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    return {
        name: setting.text
        for name, setting in config.unknown.items()
        if name.startswith(prefix)
        and name.removeprefix(prefix) not in STORE_KEYS | _CLUSTER_WIDE_OF_LISTENERS
    }


def _check_listeners(current: BrokerConfig, candidate: BrokerConfig) -> None:
    """Listeners may be added, removed and moved, as long as the advertised addresses stay the same."""
    _check_open_listeners(current, candidate)
    if candidate.listeners == current.listeners:
        return
    before = {listener.name: listener for listener in current.listeners}
    for listener in candidate.listeners:
        known = before.get(listener.name)
        if known is not None and known.security_protocol != listener.security_protocol:
            raise network.LISTENER_SECURITY_PROTOCOL_MAP.error(
                candidate[network.LISTENER_SECURITY_PROTOCOL_MAP],
                f"one that leaves listener {listener.name} at {known.security_protocol} while it is open",
            )
    if _registered(current) != _registered(candidate):
        listeners: tuple[str, ...] = candidate[network.LISTENERS]
        raise network.LISTENERS.error(
            ",".join(listeners),
            f"such that the advertised addresses stay the same: {network.ADVERTISED_LISTENERS.name} names those "
            "that do not change while the broker runs",
        )


def _registered(config: BrokerConfig) -> dict[str, tuple[str | None, int | None]]:
    """The advertised addresses of the broker, by listener."""
    if config[network.ADVERTISED_LISTENERS] is None:
        return {listener.name: (listener.host, listener.port) for listener in config.listeners}
    return {
        listener.name: (listener.advertised_host, listener.advertised_port)
        for listener in config.listeners
        if listener.advertised_host is not None
    }


# ---- application


def apply_dynamic_settings(
    config: BrokerConfig, of_cluster: Mapping[str, str], of_broker: Mapping[str, str]
) -> list[ConfigError]:
    """Applies these dynamic settings, and no others, over those that `config` was started with.

    Returns an error for each setting that could not be applied, with its requirement and place.
    """
    settings = [*layers.from_cluster_default(of_cluster), *layers.from_this_broker(of_broker)]
    sound, errors = _sound_by_themselves(settings)
    try:
        config.adopt(config.overlaid(sound))
    except InvalidConfigError:
        errors += _apply_what_fits(config, sound)
    return errors


def _sound_by_themselves(settings: Iterable[Setting]) -> tuple[list[Setting], list[ConfigError]]:
    sound: list[Setting] = []
    errors: list[ConfigError] = []
    for setting in settings:
        try:
            _check_modes({setting.key: setting.text}, per_broker=setting.source is Source.DYNAMIC_BROKER)
            sound.append(setting)
        except ConfigError as error:
            errors.append(error.at(setting.place))
    return sound, errors


def _apply_what_fits(config: BrokerConfig, settings: Sequence[Setting]) -> list[ConfigError]:
    """Adds the settings one by one, and retries those that depend on others, until no further one is valid."""
    kept: list[Setting] = []
    left = list(settings)
    fitting = config.overlaid(kept)
    rejected: list[tuple[Setting, InvalidConfigError]] = []
    while left:
        rejected = []
        for setting in left:
            try:
                fitting = config.overlaid(_in_order([*kept, setting]))
                kept.append(setting)
            except InvalidConfigError as error:
                rejected.append((setting, error))
        if len(rejected) == len(left):
            break
        left = [setting for setting, _ in rejected]
    config.adopt(fitting)
    return [_does_not_fit(setting, error) for setting, error in rejected]


def _in_order(settings: Iterable[Setting]) -> list[Setting]:
    return sorted(settings, key=lambda setting: setting.source)


def _does_not_fit(setting: Setting, error: InvalidConfigError) -> ConfigError:
    """The error for this setting, or its conflict with another one."""
    own = next((each for each in error.errors if each.key == setting.key), None)
    return own or _rejection(setting.key, setting.text, f"does not go with the others: {error.errors[0]}").at(
        setting.place
    )
