"""The KAFKA_* environment variables of Apache Kafka's container image, as configuration.

KAFKA_NUM_PARTITIONS=3 is num.partitions=3: the prefix goes, the rest becomes lower case, `_` becomes a dot, `__` an
underscore and `___` a hyphen (kafka.docker.KafkaDockerWrapper.getServerConfigsFromEnv). Our own keys follow the same
rule: KAFKA_BARNABAS_PROFILE=dev.
"""

from collections.abc import Iterator, Mapping

PREFIX = "KAFKA_"

# These are for the image's start script and the JVM, not for the broker; the image ignores them too, but for the last
# five, which Kafka's shell scripts read.
NOT_CONFIGURATION = frozenset(
    PREFIX + name
    for name in (
        "VERSION",
        "HEAP_OPTS",
        "LOG4J_OPTS",
        "OPTS",
        "JMX_OPTS",
        "JVM_PERFORMANCE_OPTS",
        "GC_LOG_OPTS",
        "LOG4J_ROOT_LOGLEVEL",
        "LOG4J_LOGGERS",
        "TOOLS_LOG4J_LOGLEVEL",
        "JMX_HOSTNAME",
        "JMX_PORT",
        "HOME",
        "DEBUG",
        "DEBUG_SUSPEND_FLAG",
        "CLUSTER_ID",
    )
)


def settings_from(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The key, value and variable name of each KAFKA_* variable that is configuration."""
    for variable in sorted(environ):
        value = environ[variable]
        if (
            not variable.startswith(PREFIX)
            or variable in NOT_CONFIGURATION
            or _is_service_link(variable, value)
        ):
            continue
        yield key_for(variable), value, variable


def key_for(variable: str) -> str:
    """The key that a KAFKA_* variable stands for: KAFKA_LOG_DIRS -> log.dirs."""
    dotted = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def cluster_id_from(environ: Mapping[str, str]) -> str | None:
    """The cluster id that the image would format its storage with."""
    return environ.get("CLUSTER_ID") or environ.get("KAFKA_CLUSTER_ID") or None


def _is_service_link(variable: str, value: str) -> bool:
    """True for variables that Kubernetes sets in every pod when there is a service named kafka: KAFKA_PORT=tcp://..."""
    if variable == "KAFKA_PORT":
        return "://" in value
    return variable.startswith(("KAFKA_SERVICE_", "KAFKA_PORT_"))
