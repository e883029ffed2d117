"""A broker with an authorizer, and ACLs for its clients, which are User:ANONYMOUS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.config.catalogue.server import STANDARD_AUTHORIZER
from barnabas.protocol.messages.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclResourceType,
    CreateAclsRequest,
    DeleteAclsRequest,
    PatternType,
    PermissionType,
)
from barnabas.protocol.wire import Uuid
from tests.broker.broker_fixture import Client, InProcessBroker
from tests.support.difference import Like

ADMIN = KafkaPrincipal("admin")


class GuardedBroker(InProcessBroker):
    """Its clients may do nothing that they are not allowed; `admin` may do everything."""

    def __init__(
        self,
        log_dir: Path,
        settings: Mapping[str, str] | None = None,
        *,
        runner: BlockingRunner | None = None,
        request_clock: Callable[[], float] | None = None,
    ) -> None:
        guard = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
        super().__init__(log_dir, {**guard, **(settings or {})}, runner=runner, request_clock=request_clock)

    def admin(self, version: int) -> Client:
        """A client that may do everything."""
        return self.client(version=version, principal=ADMIN)

    def allow(
        self,
        operation: AclOperation,
        kind: AclResourceType = AclResourceType.CLUSTER,
        *names: str,
        permission: PermissionType = PermissionType.ALLOW,
        principal: str = "User:ANONYMOUS",
    ) -> None:
        """Allows (or denies) an operation on resources of these names, or on the cluster."""
        entries = [
            CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=PatternType.LITERAL,
                principal=principal,
                host="*",
                operation=operation,
                permission_type=permission,
            )
            for name in names or (CLUSTER_NAME,)
        ]
        created = Like(results=[Like(error_code=0)] * len(entries))
        assert self.admin(version=3) >> CreateAclsRequest(creations=entries) << created

    def deny_again(self) -> None:
        """Removes all ACLs."""
        every = DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        assert self.admin(version=3) >> DeleteAclsRequest(filters=[every]) << Like()

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Uuid:
        """Creates a topic as the administrator; returns its id."""
        client, self.client = self.client, self._as_admin  # type: ignore[method-assign]  # for the one request
        try:
            return super().create_topic(name, partitions, **configs)
        finally:
            self.client = client  # type: ignore[method-assign]

    def _as_admin(self, version: int, client_id: str | None = "test", **_: object) -> Client:
        return Client(self, version, client_id, ADMIN)
