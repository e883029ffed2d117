"""ACLs for tests, in few words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.security.authorizer import StandardAuthorizer
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.messages.acls import AclOperation, AclResourceType, PatternType, PermissionType
from barnabas.protocol.messages.cluster_records import AccessControlEntryRecord
from barnabas.protocol.wire import Uuid

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP


def acl(
    name: str,
    operation: int = AclOperation.READ,
    permission: int = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    kind: int = TOPIC,
    pattern: int = LITERAL,
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


class AuthorizerWithAcls(StandardAuthorizer):
    """An authorizer, and the metadata that it follows."""

    def __init__(
        self,
        *acls: AccessControlEntryRecord,
        settings: Iterable[str] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(now)
        self.configure(BrokerConfig.of("\n".join(settings).encode()))
        self._acls: dict[Uuid, AccessControlEntryRecord] = {}
        self._next_id = 0
        self.add(*acls)

    def add(self, *acls: AccessControlEntryRecord) -> list[Uuid]:
        """Returns their ids."""
        ids = []
        for one in acls:
            self._next_id += 1
            ids.append(self._next_id.to_bytes(16, "big"))
            self._acls[ids[-1]] = one
        self._changed(*ids)
        return ids

    def remove(self, *ids: Uuid) -> None:
        for acl_id in ids:
            del self._acls[acl_id]
        self._changed(*ids)

    def _changed(self, *ids: Uuid) -> None:
        image = MetadataImage.empty()
        image.acls = self._acls
        self.apply(image, MetadataDelta(acl_changes=set(ids)))
