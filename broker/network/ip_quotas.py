"""IpQuotasUpdate: the rates at which addresses may connect, as quotas in the metadata set them (KIP-612).

A quota may name a host: its addresses are looked up when the quota is set or the broker starts, off the event loop.
Source: ClientQuotaMetadataManager.handleIpQuota.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.network.connection_quotas import plain_address
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.host_lookup import is_address
from barnabas.config.catalogue.resources import CONNECTION_CREATION_RATE

logger = logging.getLogger("barnabas.network")

IP = "ip"

ChangeIpLimits = Callable[[Mapping[str, float], float | None], None]
"""Takes the rates by address, and that of other addresses."""


class IpQuotasUpdate:
    """A publisher of metadata: passes the quotas of addresses on when one of them has changed."""

    def __init__(self, change: ChangeIpLimits, runner: BlockingRunner) -> None:
        self._change = change
        self._runner = runner
        self._newest = 0

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if not any(is_of_ip(entity) for entity in delta.quota_changes):
            return
        self._newest += 1
        number = self._newest
        key = CONNECTION_CREATION_RATE.name
        rates = {
            entity[0][1]: float(int(values[key]))
            for entity, values in image.quotas.items()
            if is_of_ip(entity) and key in values
        }
        default = rates.pop(None, None)
        by_host = {host: rate for host, rate in rates.items() if host is not None}
        by_address: dict[str, float] = {}

        def look_up() -> None:
            for host, rate in by_host.items():
                for address in addresses_of(host):
                    by_address[address] = rate

        def done(error: BaseException | None) -> None:
            if error is not None:
                raise error
            if number == self._newest:
                self._change(by_address, default)

        if all(map(is_address, by_host)):
            look_up()
            done(None)
        else:
            self._runner.submit(look_up, done)


def is_of_ip(entity: tuple[tuple[str, str | None], ...]) -> bool:
    """Whether a quota's entity is an address, or the default of those."""
    return len(entity) == 1 and entity[0][0] == IP


def addresses_of(host: str) -> set[str]:
    """The addresses of a host, as connections have them; none, and a line in the log, where it is not known. Blocks."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        logger.error("the quota of %s has no effect: its address is not known (%s)", host, error)
        return set()
    return {plain_address(str(address[0])) for *_, address in found}
