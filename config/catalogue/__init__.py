"""Every configuration key of Apache Kafka 4.3, and Barnabas's own, declared once.

BROKER_KEYS    what server.properties may hold, our own keys included
TOPIC_KEYS     what a topic may be given; GROUP_KEYS and CLIENT_METRICS_KEYS likewise
QUOTA_KEYS     what users, client ids and addresses may be given
DYNAMIC_BROKER_KEYS  broker keys that are only set while the broker runs

The modules follow Kafka's own division; each key is also a constant of its module, named as Kafka names it.
"""

from collections.abc import Mapping
from typing import Any

from barnabas.config.catalogue import (
    barnabas,
    controller,
    groups,
    http,
    log,
    metrics,
    network,
    replication,
    resources,
    sasl,
    server,
    share,
    tiering,
    tls,
    topic,
    transactions,
)
from barnabas.config.keys import ConfigKey

# In the order of the reference: the keys that most users change come first.
SECTIONS: Mapping[str, Mapping[str, ConfigKey[Any]]] = {
    "Barnabas's own keys": barnabas.keys.by_name,
    "TLS and login of the HTTP port": http.keys.by_name,
    "The server": server.keys.by_name,
    "Network": network.keys.by_name,
    "Logs": log.keys.by_name,
    "Replication": replication.keys.by_name,
    "Transactions and producers": transactions.keys.by_name,
    "Groups and offsets": groups.keys.by_name,
    "Share groups": share.keys.by_name,
    "Controller and metadata log": controller.keys.by_name,
    "Tiered storage": tiering.keys.by_name,
    "Metrics and quota windows": metrics.keys.by_name,
    "TLS, principals and delegation tokens": tls.keys.by_name,
    "SASL": sasl.keys.by_name,
}

BROKER_KEYS: Mapping[str, ConfigKey[Any]] = {
    name: key for section in SECTIONS.values() for name, key in section.items()
}
DYNAMIC_BROKER_KEYS: Mapping[str, ConfigKey[Any]] = metrics.dynamic_keys.by_name
TOPIC_KEYS: Mapping[str, ConfigKey[Any]] = topic.keys.by_name
GROUP_KEYS: Mapping[str, ConfigKey[Any]] = resources.group_keys.by_name
CLIENT_METRICS_KEYS: Mapping[str, ConfigKey[Any]] = resources.client_metrics_keys.by_name
QUOTA_KEYS: Mapping[str, ConfigKey[Any]] = {
    **resources.client_quota_keys.by_name,
    **resources.ip_quota_keys.by_name,
    **resources.user_credential_keys.by_name,
}
