"""ClientQuotaCallback: the hook for quotas that a deployment decides itself, `client.quota.callback.class`.

The key names a class as `python:module:Class`. It is made without arguments when the broker starts, and called on the
event loop, so it must answer at once. As a complete example, the module `company_quotas` in a directory of PYTHONPATH

    class Teams:
        # All users of a team, which is what their names begin with, share 10 MB/s for producing.

        def configure(self, configs):
            pass

        def quota_metric_tags(self, quota_type, principal, client_id):
            return {"user": principal.name.partition("-")[0]}

        def quota_limit(self, quota_type, metric_tags):
            return 10_000_000.0 if quota_type == "Produce" else None

        def update_quota(self, quota_type, entity, new_value):
            pass                    # quotas in the metadata are not followed

        def remove_quota(self, quota_type, entity):
            pass

        def quota_reset_required(self, quota_type):
            return False

        def update_cluster_metadata(self, cluster):
            return False

        def close(self):
            pass

and in server.properties

    client.quota.callback.class=python:company_quotas:Teams

Source: org.apache.kafka.server.quota.ClientQuotaCallback (KIP-257).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from barnabas.broker.quotas.limits import Entity, Key
from barnabas.broker.quotas.quota_types import QuotaType
from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.hooks import make_hook
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.catalogue.metrics import CLIENT_QUOTA_CALLBACK_CLASS
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError

USER_TAG: Final = "user"
CLIENT_ID_TAG: Final = "client-id"


class ClientQuotaCallback(Protocol):
    """Decides which quota is in force for whom. `quota_type` is Produce, Fetch, Request or ControllerMutation."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, with the values of server.properties as text, but for passwords and the like."""

    def quota_metric_tags(
        self, quota_type: str, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """The tags of the counter that the client's requests are charged to: clients with the same ones share it."""

    def quota_limit(self, quota_type: str, metric_tags: Mapping[str, str]) -> float | None:
        """The limit of the counter with these tags; None without one."""

    def update_quota(self, quota_type: str, entity: Mapping[str, str | None], new_value: float) -> None:
        """A quota was set in the metadata. `entity` is by `user` and `client-id`, None being the default."""

    def remove_quota(self, quota_type: str, entity: Mapping[str, str | None]) -> None:
        """A quota was removed from the metadata."""

    def quota_reset_required(self, quota_type: str) -> bool:
        """Whether limits have changed since the last call."""

    def update_cluster_metadata(self, cluster: Any) -> bool:
        """There is a new image of the metadata. Returns whether limits have changed."""

    def close(self) -> None:
        """The broker stops."""


_METHODS: Final = tuple(name for name in vars(ClientQuotaCallback) if not name.startswith("_"))


class CallbackLimits:
    """The limits of one type of quota, as a ClientQuotaCallback has them. Used in place of QuotaLimits."""

    def __init__(self, callback: ClientQuotaCallback, quota_type: QuotaType) -> None:
        self._callback = callback
        self._type = quota_type.value
        self._known: dict[Entity, float] = {}

    def __bool__(self) -> bool:
        """There may always be some."""
        return True

    def update(self, entity: Entity, limit: float | None) -> None:
        """Passes a change on, once."""
        if limit == self._known.get(entity):
            return
        user, client = entity
        named: dict[str, str | None] = {}
        if user is not None:
            named[USER_TAG] = user[0]
        if client is not None:
            named[CLIENT_ID_TAG] = client[0]
        if limit is None:
            del self._known[entity]
            self._callback.remove_quota(self._type, named)
        else:
            self._known[entity] = limit
            self._callback.update_quota(self._type, named, limit)

    def key(self, principal: KafkaPrincipal, client_id: str) -> Key:
        """The tags, each with its value behind it."""
        tags = self._callback.quota_metric_tags(self._type, principal, client_id)
        return tuple(text for item in tags.items() for text in item)

    def limit(self, key: Key) -> float | None:
        return self._callback.quota_limit(self._type, _tags(key))

    def have_changed(self) -> bool:
        """Whether limits may be others than they were at the last call."""
        return self._callback.quota_reset_required(self._type)

    def labels(self, key: Key) -> tuple[str, str]:
        """The user and the client id of a counter, for metrics."""
        tags = _tags(key)
        return tags.get(USER_TAG, ""), tags.get(CLIENT_ID_TAG, "")


def _tags(key: Key) -> dict[str, str]:
    return dict(zip(key[::2], key[1::2], strict=True))


def load_callback(config: BrokerConfig) -> ClientQuotaCallback | None:
    """The hook that the configuration names, configured; None without one. Raises InvalidConfigError."""
    named = config[CLIENT_QUOTA_CALLBACK_CLASS]
    if not named:
        return None
    try:
        callback: ClientQuotaCallback = make_hook(CLIENT_QUOTA_CALLBACK_CLASS, named, *_METHODS)
    except ConfigError as error:
        raise InvalidConfigError([error]) from error
    callback.configure(
        {each.key: each.text for each in config.settings() if not BROKER_KEYS[each.key].sensitive}
    )
    return callback
