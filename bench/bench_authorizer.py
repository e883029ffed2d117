"""What a decision of the authorizer costs, with few and with many ACLs: `python -m bench.bench_authorizer`.

A decision that is kept, a new one, and a change of one ACL; and the list of 10,000 topics for a client that may see
nine of ten, the first time, again, and on another connection. In time of the processor.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.request import ConnectionInfo, KafkaPrincipal, RequestContext
from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.broker.security.authorizer import StandardAuthorizer
from barnabas.broker.security.decisions import Check
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.acls import AclOperation, AclResourceType, PatternType, PermissionType
from barnabas.protocol.messages.cluster_records import AccessControlEntryRecord
from barnabas.protocol.wire import Uuid

COUNTS: Final = (0, 1_000, 100_000)
"""ACLs beside those of the client."""
TOPICS: Final = 100
LISTED: Final = 10_000
READ: Final = Check(AclOperation.READ, AclResourceType.TOPIC)
LIST: Final = Check(AclOperation.DESCRIBE, AclResourceType.TOPIC, quiet=True)
HOST: Final = "10.0.0.1"


def acl(name: str, principal: str = "User:alice", *, is_prefix: bool = False) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        resource_type=AclResourceType.TOPIC,
        resource_name=name,
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=AclOperation.READ,
        permission_type=PermissionType.ALLOW,
    )


def acls(count: int) -> Iterable[AccessControlEntryRecord]:
    """Those of the client, and `count` of others: for names and for prefixes of several lengths."""
    yield from (acl(f"t{number}") for number in range(TOPICS))
    yield from (acl(f"team{number}-", is_prefix=True) for number in range(9))
    for number in range(count):
        yield acl(f"u{number}", f"User:{number % 5000}", is_prefix=number % 3 != 0)


class Loaded:
    """An authorizer with ACLs, which a change adds and removes again."""

    def __init__(self, count: int) -> None:
        self.authorizer = StandardAuthorizer()
        self._acls: dict[Uuid, AccessControlEntryRecord] = {}
        self._apply({number.to_bytes(16, "big"): one for number, one in enumerate(acls(count))})

    def _apply(self, added: dict[Uuid, AccessControlEntryRecord]) -> None:
        self._acls |= added
        image = MetadataImage.empty()
        image.acls = self._acls
        self.authorizer.apply(image, MetadataDelta(acl_changes=set(added)))

    def change(self) -> None:
        self._apply({b"?" * 16: acl("another")})


def best_us(work: Callable[[], object], calls: int, rounds: int = 5) -> float:
    """The shortest of several measurements, in microseconds a call."""
    return min(timeit.repeat(work, timer=time.process_time, number=calls, repeat=rounds)) / calls * 1e6


def request() -> RequestContext:
    """One of a new connection of the client."""
    connection = ConnectionInfo(
        connection_id=1,
        listener_name="PLAINTEXT",
        client_host=HOST,
        client_port=1,
        local_host="",
        local_port=1,
        principal=KafkaPrincipal("alice"),
    )
    return RequestContext(connection, ApiKey.FETCH, 12)


def main() -> None:
    context = request()
    listed = [f"team{number % 10}-{number}" for number in range(LISTED)]
    names = [f"t{number}" for number in range(TOPICS)]
    for count in COUNTS:
        loaded = Loaded(count)
        helper, rule = AuthHelper(loaded.authorizer), loaded.authorizer.rule
        helper.filter(context, READ, names)
        kept = best_us(partial(helper.filter, context, READ, names), 2_000) / TOPICS
        new = best_us(
            partial(rule, "User:alice", HOST, AclOperation.READ, AclResourceType.TOPIC, "t5"), 5_000
        )
        change = best_us(loaded.change, 100)
        print(f"{count:7,} ACLs: {kept:.3f} us a topic kept, {new:.2f} us new, {change:.1f} us for a change")
        helper, context = AuthHelper(loaded.authorizer), request()
        first, again, other = (
            best_us(partial(helper.filter, of, LIST, listed), 1, rounds) / LISTED
            for of, rounds in ((context, 1), (context, 5), (request(), 1))
        )
        print(
            f"        listed topics: {first:.2f} us each, again {again:.3f}, on another connection {other:.3f}"
        )


if __name__ == "__main__":
    main()
