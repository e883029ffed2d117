"""Our configuration against Apache Kafka's own classes: catalogue, validators, rules, files, DescribeConfigs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from barnabas.config import environment
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_BROKER_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    resources,
)
from barnabas.config.catalogue.server import AUTHORIZER_CLASS_NAME
from barnabas.config.describe import ConfigEntry, describe_broker_configs, describe_topic_configs
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import InvalidConfigError
from barnabas.config.log_config import validate_topic_overrides
from barnabas.config.properties import PropertiesError, decode, read_properties
from barnabas.config.values import ConfigType, format_value, parse_value
from tests.conformance.java_config import SOURCE, JavaConfig, KafkaRejectedError, text
from tests.conformance.kafka_jars import require_classpath

pytestmark = pytest.mark.conformance

KINDS: Mapping[str, Mapping[str, ConfigKey[Any]]] = {
    "broker": BROKER_KEYS,
    "dynamic": DYNAMIC_BROKER_KEYS,
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "client_metrics": CLIENT_METRICS_KEYS,
    "user": {**resources.client_quota_keys.by_name, **resources.user_credential_keys.by_name},
    "ip": resources.ip_quota_keys.by_name,
}

# Keys that Kafka requires and Barnabas, a single node, does not.
REQUIRED_BY_KAFKA = {"process.roles", "node.id", "controller.listener.names"}

# Keys that in Kafka only the authorizer declares.
NOT_IN_KAFKA = {"super.users", "allow.everyone.if.no.acl.found"}

# A valid file for both.
SINGLE_NODE = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
"""

SAMPLES: Mapping[ConfigType, str] = {
    ConfigType.BOOLEAN: "true|FALSE| True |yes|1|",
    ConfigType.INT: "0|1|-1|-2|+7| 8 |1_000|1e3|2147483647|2147483648|0x10||x|1.0",
    ConfigType.SHORT: "0|1|32767|32768|-32768|-32769|",
    ConfigType.LONG: "0|1|-1|9223372036854775807|9223372036854775808|-9223372036854775808|1L|",
    ConfigType.DOUBLE: "0|0.5|-0.5|1|1.5|1e-3|.5|5.|1d|2F|NaN|nan|Infinity|inf|1_0||.|-|e5|1e400",
    ConfigType.LIST: "|a|a,b| a , b |a,,b|a,a|,|*|compact,delete|delete,|1:2,3:4|1@h:9093",
    ConfigType.STRING: "|a| a b |gzip|GZIP|zstd|CreateTime|none|latest|read_committed|upgrade|rs256",
    ConfigType.PASSWORD: "|secret| secret ",
}

# Keys with rules of their own.
SPECIAL_SAMPLES = [
    ("topic", "leader.replication.throttled.replicas", "|*|1:2|1:2,|1:2,*|*,|1:|a:b|1:2:3|-1:2"),
    (
        "broker",
        "controller.quorum.voters",
        "1@a:1|1@a:1,2@b:2|a@b:1|1@b|1@:1|-1@a:1|1@[::1]:9|1@a:x|1@x://a:1|1@a b:1",
    ),
    (
        "broker",
        "controller.quorum.bootstrap.servers",
        "a:1|a:1,b:2|a|:1|[::1]:9|a:x|a:-1|PLAINTEXT://a:1|a/b:1",
    ),
    (
        "group",
        "share.auto.offset.reset",
        "latest|earliest|none|LATEST|by_duration:|by_duration:1h|by_duration:P",
    ),
    (
        "group",
        "share.auto.offset.reset",
        "by_duration:PT1H|by_duration:P1D|by_duration:p1dt1h2m3.5s|by_duration:PT",
    ),
    (
        "group",
        "share.auto.offset.reset",
        "by_duration:-PT1H|by_duration:PT-1H|by_duration:P1DT|by_duration:PT1.5H",
    ),
    (
        "group",
        "share.auto.offset.reset",
        "by_duration:PT1,5S|by_duration:+PT+1H|by_duration:PT1.S|by_duration:P1DT1S",
    ),
    ("broker", "compression.gzip.level", "-2|-1|0|1|9|10"),
    ("broker", "process.roles", "broker|controller,broker|broker,broker||zookeeper"),
]


@pytest.fixture(scope="module")
def kafka() -> Iterator[JavaConfig]:
    java = JavaConfig(require_classpath())
    yield java
    java.close()


def catalogue(kafka: JavaConfig) -> Iterator[tuple[str, str, list[str | None]]]:
    for kind, name, *facts in kafka.request("catalogue"):
        yield str(kind), str(text(name)), facts


def test_catalogue_has_kafkas_keys(kafka: JavaConfig) -> None:
    theirs: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for kind, name, _ in catalogue(kafka):
        theirs[kind].add(name)
    ours = {kind: {name for name in keys if not name.startswith("barnabas.")} for kind, keys in KINDS.items()}
    assert ours["broker"] - theirs["broker"] == NOT_IN_KAFKA
    ours["broker"] -= NOT_IN_KAFKA
    assert ours == theirs


def test_type_default_importance_and_mode_are_kafkas(kafka: JavaConfig) -> None:
    for kind, name, (type_name, has_default, default, importance, internal, mode, _) in catalogue(kafka):
        key = KINDS[kind][name]
        facts = (key.type.name, key.importance.name, str(key.internal).lower())
        assert facts == (text(type_name), text(importance), internal), name
        if kind in {"broker", "dynamic"}:
            assert key.dynamic.value == text(mode), name
        assert (name in REQUIRED_BY_KAFKA) == (has_default == "false")
        if name not in REQUIRED_BY_KAFKA:
            assert key.format(key.default) == text(default), name


def test_documentation_is_not_copied_from_kafka(kafka: JavaConfig) -> None:
    theirs = {str(text(facts[-1])).strip() for _, _, facts in catalogue(kafka)}
    ours = {key.documentation for keys in KINDS.values() for key in keys.values()}
    assert not ours & theirs


def samples_for(key: ConfigKey[Any]) -> Iterator[str]:
    """Valid and invalid texts, with the numbers around the bounds of the key's range."""
    yield from SAMPLES[key.type].split("|")
    low, high = getattr(key.validator, "low", None), getattr(key.validator, "high", None)
    step = 0.25 if key.type is ConfigType.DOUBLE else 1
    for bound in (low, high):
        if bound is not None:
            yield from (str(bound - step), str(bound), str(bound + step))
    yield from getattr(key.validator, "words", ())


def ours(key: ConfigKey[Any], value: str) -> str | None:
    try:
        return key.format(key.parse(value))
    except ConfigError:
        return "rejected"


def kafkas(kafka: JavaConfig, kind: str, name: str, value: str) -> str | None:
    try:
        return kafka.parse(kind, name, value)
    except KafkaRejectedError:
        return "rejected"


@pytest.mark.parametrize("kind", KINDS)
def test_validators_accept_and_reject_the_same(kafka: JavaConfig, kind: str) -> None:
    theirs = {name for other, name, _ in catalogue(kafka) if other == kind}
    for name in theirs:
        key = KINDS[kind][name]
        if key.type is ConfigType.CLASS or key is AUTHORIZER_CLASS_NAME:
            continue  # Kafka loads the class
        for value in samples_for(key):
            assert ours(key, value) == kafkas(kafka, kind, name, value), f"{name}={value}"


@pytest.mark.parametrize(("kind", "name", "values"), SPECIAL_SAMPLES)
def test_validators_of_single_keys(kafka: JavaConfig, kind: str, name: str, values: str) -> None:
    for value in values.split("|"):
        assert ours(KINDS[kind][name], value) == kafkas(kafka, kind, name, value), f"{name}={value}"


def starts(properties: str) -> bool:
    try:
        BrokerConfig.of(properties.encode())
    except InvalidConfigError:
        return False
    return True


@pytest.mark.parametrize(
    "line",
    [
        "num.partitions=2",
        "broker.id=1",
        "broker.id=2",
        "log.roll.ms=0",
        "log.roll.ms=1",
        "log.roll.jitter.ms=-1",
        "log.retention.ms=0",
        "log.retention.ms=-1",
        "log.retention.ms=-5",
        "log.retention.minutes=0",
        "log.retention.hours=0",
        "log.retention.hours=0\nlog.retention.ms=1",
        "log.dirs=",
        "log.dirs=/a,/b\ncordoned.log.dirs=/a",
        "log.dirs=/a,/b\ncordoned.log.dirs=/c",
        "cordoned.log.dirs=*",
        "cordoned.log.dirs=*,/tmp/kafka-logs",
        "log.cleaner.dedupe.buffer.size=1048576",
        "log.cleaner.dedupe.buffer.size=1048577",
        "log.cleaner.dedupe.buffer.size=1048576\nlog.cleaner.enable=false",
        "log.cleaner.threads=128",
        "replica.fetch.wait.max.ms=30001",
        "replica.fetch.wait.max.ms=600\nreplica.lag.time.max.ms=500",
        "replica.socket.timeout.ms=499",
        "broker.heartbeat.interval.ms=4500",
        "broker.heartbeat.interval.ms=4501",
        "broker.session.timeout.ms=3999",
        "queued.max.request.bytes=1",
        "queued.max.request.bytes=0",
        "queued.max.request.bytes=104857600",
        "socket.request.max.bytes=1000\nqueued.max.request.bytes=1000",
        "connections.max.idle.ms=100",
        "connections.max.idle.ms=101",
        "connections.max.idle.ms=-1",
        "max.connections.per.ip=0",
        "max.connections.per.ip=0\nmax.connections.per.ip.overrides=127.0.0.1:5",
        "max.connections.per.ip.overrides=127.0.0.1",
        "max.connections.per.ip.overrides=127.0.0.1:x",
        "offsets.topic.compression.codec=4",
        "offsets.topic.compression.codec=5",
        "share.coordinator.state.topic.compression.codec=-1",
        "inter.broker.listener.name=PLAINTEXT",
        "inter.broker.listener.name=OTHER",
        "inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT",
        "group.consumer.session.timeout.ms=44999",
        "group.consumer.session.timeout.ms=60001",
        "group.consumer.heartbeat.interval.ms=4999",
        "group.consumer.max.heartbeat.interval.ms=4999",
        "group.consumer.min.session.timeout.ms=5000\ngroup.consumer.session.timeout.ms=5000",
        "group.consumer.min.session.timeout.ms=5001\ngroup.consumer.session.timeout.ms=5001",
        "group.consumer.assignment.interval.ms=15001",
        "group.streams.session.timeout.ms=44999",
        "group.streams.heartbeat.interval.ms=15001",
        "group.streams.num.standby.replicas=3",
        "group.share.session.timeout.ms=60001",
        "group.share.heartbeat.interval.ms=4999",
        "group.share.assignors=simple",
        "group.share.assignors=simple,range",
        "group.share.delivery.count.limit=10",
        "group.share.max.delivery.count.limit=5\ngroup.share.delivery.count.limit=6",
        "group.share.record.lock.duration.ms=14999",
        "group.share.record.lock.duration.ms=60001",
        "group.share.partition.max.record.locks=4001",
        "advertised.listeners=PLAINTEXT://host:9092",
        "advertised.listeners=PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners=OTHER://host:9092",
        "advertised.listeners=PLAINTEXT://host:9092,PLAINTEXT://other:9092",
        "advertised.listeners=",
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9092",
        "listeners=PLAINTEXT://:9092,PLAINTEXT://:9094,CONTROLLER://:9093",
        "listeners=PLAINTEXT://:9092,OTHER://:9094,CONTROLLER://:9093",
        "listeners=plaintext://:9092,CONTROLLER://:9093",
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092",
        "listeners=PLAINTEXT://:0,CONTROLLER://:0",
        "listeners=PLAINTEXT://localhost,CONTROLLER://:9093",
        "listeners=PLAINTEXT:9092,CONTROLLER://:9093",
        "listeners=PLAINTEXT://[::1]:9092,CONTROLLER://:9093",
        "listeners=PLAINTEXT://a b:9092,CONTROLLER://:9093",
        "listeners=CONTROLLER://:9093",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:OTHER",
        "listener.security.protocol.map=PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.security.protocol.map=plaintext:plaintext,CONTROLLER:PLAINTEXT",
        "num.partitions=x",
        "unknown.key=1",
    ],
)  # fmt: skip
def test_files_are_accepted_or_rejected_as_by_kafka(kafka: JavaConfig, line: str) -> None:
    properties = SINGLE_NODE + line + "\n"
    assert starts(properties) == kafka.starts_with(properties)


@pytest.mark.parametrize(
    "settings",
    [
        "",
        "retention.ms=-1",
        "retention.ms=-2",
        "unknown.key=1",
        "cleanup.policy=compact",
        "cleanup.policy=",
        "min.compaction.lag.ms=5",
        "min.compaction.lag.ms=21",
        "min.compaction.lag.ms=21\nmax.compaction.lag.ms=22",
        "min.compaction.lag.ms=5\nmax.compaction.lag.ms=5",
        "min.compaction.lag.ms=6\nmax.compaction.lag.ms=5",
        "remote.storage.enable=true",
        "remote.storage.enable=false",
        "internal.segment.bytes=100",
        "segment.bytes=100",
    ],
)
def test_topic_settings_are_accepted_or_rejected_as_by_kafka(kafka: JavaConfig, settings: str) -> None:
    overrides = {property_.key: property_.value for property_ in read_properties(settings)}
    properties = SINGLE_NODE + "log.cleaner.max.compaction.lag.ms=20\n"
    try:
        validate_topic_overrides(overrides, BrokerConfig.of(properties.encode()))
        accepted = True
    except ConfigError:
        accepted = False
    assert accepted == kafka.accepts_topic(settings, properties)


def described(entries: Iterator[ConfigEntry]) -> dict[str, tuple[Any, ...]]:
    return {
        entry.name: (
            entry.value,
            int(entry.source),
            entry.read_only,
            entry.sensitive,
            int(entry.type),
            [(synonym.name, synonym.value, int(synonym.source)) for synonym in entry.synonyms],
        )
        for entry in entries
    }


def described_by_kafka(lines: list[list[str | None]]) -> dict[str, tuple[Any, ...]]:
    entries = {}
    for name, value, source, read_only, sensitive, type_, *rest in lines:
        synonyms = [
            (text(rest[at]), text(rest[at + 1]), int(rest[at + 2] or 0)) for at in range(0, len(rest), 3)
        ]
        flags = (read_only == "true", sensitive == "true")
        entries[str(text(name))] = (text(value), int(source or 0), *flags, int(type_ or 0), synonyms)
    return entries


DESCRIBED_FILES = [
    "",
    "log.retention.minutes=600\nlog.segment.bytes=2000000\nnum.io.threads=2",
    "log.retention.ms=5\nlog.retention.hours=4\nlog.roll.hours=3\nlog.flush.interval.ms=7\nlog.roll.jitter.ms=1",
    "log.flush.scheduler.interval.ms=9\nlog.cleanup.policy= compact , delete\nlog.cleaner.min.cleanable.ratio=1e-7",
    "ssl.key.password=secret\nsome.unknown.key=1\nbroker.rack=a\nproducer.id.expiration.check.interval.ms=5",
    "listener.name.plaintext.ssl.client.auth=required\nssl.client.auth=none\nlog.dirs=/a,/b",
]


@pytest.mark.parametrize("lines", DESCRIBED_FILES)
def test_the_broker_is_described_as_by_kafka(kafka: JavaConfig, lines: str) -> None:
    properties = (SINGLE_NODE + lines).encode()
    theirs = described_by_kafka(kafka.request("describe_broker", properties))
    mine = described(describe_broker_configs(BrokerConfig.of(properties)))
    left_out = {name for name in mine if name.startswith("barnabas.")} | NOT_IN_KAFKA
    for name in set(mine) - left_out | set(theirs):
        if name in REQUIRED_BY_KAFKA:
            continue
        assert mine.get(name) == theirs.get(name), name


@pytest.mark.parametrize("lines", DESCRIBED_FILES)
@pytest.mark.parametrize(
    "overrides", ["", "retention.ms=1000\ncleanup.policy=compact, delete\ninternal.segment.bytes=9"]
)
def test_a_topic_is_described_as_by_kafka(kafka: JavaConfig, lines: str, overrides: str) -> None:
    properties = (SINGLE_NODE + lines).encode()
    own = {property_.key: property_.value for property_ in read_properties(overrides)}
    theirs = described_by_kafka(kafka.request("describe_topic", properties, overrides.encode()))
    assert described(describe_topic_configs(BrokerConfig.of(properties), own)) == theirs


def test_doubles_are_written_as_by_java(kafka: JavaConfig) -> None:
    dice = random.Random(5)
    values = [
        "0",
        "1",
        "-1",
        "0.1",
        "1e-3",
        "9.99e-4",
        "1e7",
        "9999999.9",
        "1e21",
        "1e22",
        "123456789.125",
        "NaN",
        "-Infinity",
    ]
    values += [repr(dice.uniform(-10, 10) * 10.0 ** dice.randint(-12, 12)) for _ in range(300)]
    for value in values:
        ((theirs,),) = kafka.request("double", value.encode())
        assert format_value(ConfigType.DOUBLE, parse_value(ConfigType.DOUBLE, value)) == text(theirs), value


def random_file(dice: random.Random) -> str:
    """Fragments in which every rule of the format occurs, in any order."""
    fragments = [
        "key", "a.b", "value", "=", ":", " ", "\t", "\f", "\n", "\r", "\r\n", "\\", "\\\n", "\\\r\n", "\\=", "\\:",
        "\\ ", "#", "!", "# comment", "\\t", "\\n", "\\u0041", "\\u00e9", "\\u12", "\\ud83d\\ude00", "\\z", "\\\\", ",",
    ]  # fmt: skip
    # The last line keeps a backslash from ending the file, which Java sometimes reads as a property without a name.
    return "".join(dice.choice(fragments) for _ in range(dice.randint(1, 25))) + "\nlast=1\n"


def readable(properties: dict[str, str]) -> dict[str, str]:
    """The properties with U+FFFD replaced by the question mark that Java sends for half of a surrogate pair."""
    return {key.replace("\ufffd", "?"): value.replace("\ufffd", "?") for key, value in properties.items()}


def test_files_are_read_as_by_java(kafka: JavaConfig) -> None:
    dice = random.Random(11)
    for _ in range(3000):
        written = random_file(dice)
        try:
            theirs = {text(key): text(value) for key, value in kafka.request("load", written.encode())}
        except KafkaRejectedError:
            with pytest.raises(PropertiesError):
                read_properties(decode(written.encode()))
            continue
        mine = read_properties(decode(written.encode()))
        assert readable({one.key: one.value for one in mine}) == theirs, repr(written)


def test_variables_name_keys_as_in_the_image(kafka: JavaConfig) -> None:
    variables = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LISTENER_NAME_SASL__SSL_SASL_JAAS_CONFIG": "x=y",
        "KAFKA_A___B__C_D": "",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_VERSION": "4.3.1",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1",
        "KAFKA_KAFKA_METRICS_REPORTERS": "x",
        "OTHER": "1",
    }
    words = [word.encode() for pair in variables.items() for word in pair]
    theirs = {text(line[0]) for line in kafka.request("environment", *words)}
    assert {f"{key}={value}" for key, value, _ in environment.settings_from(variables)} == theirs


def test_java_source_exists() -> None:
    assert SOURCE.is_file()
