from __future__ import annotations

import asyncio
from pathlib import Path

from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.metrics.security_metrics import add_security
from barnabas.broker.network.listener_security import ListenerSecurities
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.listeners import Listener
from tests.broker.metrics.test_sources import values
from tests.broker.network.test_listener_security import config, folder

__all__ = ["folder"]  # the fixture


async def test_certificates_and_who_was_let_in(folder: Path) -> None:
    securities = ListenerSecurities(config(folder), asyncio.get_running_loop(), InlineRunner())
    logins = securities.of(Listener("LOGINS", None, 0, "SASL_PLAINTEXT"))
    assert logins is not None
    logins.probe.failed_authentications = 3
    over_tls = securities.by_name["SSL"]
    over_tls.probe.successful_authentications = 2
    over_tls.probe.by_cipher = {("TLS_AES_256_GCM_SHA384", "TLSv1.3"): 1}
    tls = over_tls.tls
    assert tls is not None
    tls.reloads, tls.reload_failures = 4, 5
    metrics = Metrics()
    add_security(metrics, securities.by_name.values)
    prefix = "kafka_server_socket_server_metrics"
    assert values(metrics, f"{prefix}_connections_cipher") == {
        ("TLS_AES_256_GCM_SHA384", "TLSv1.3", "SSL"): 1
    }
    assert values(metrics, f"{prefix}_successful_authentication_total") == {
        ("SSL", "0"): 2,
        ("LOGINS", "0"): 0,
    }
    assert values(metrics, f"{prefix}_failed_authentication_total") == {("SSL", "0"): 0, ("LOGINS", "0"): 3}
    assert values(metrics, "barnabas_tls_certificate_expiry_timestamp_seconds") == {("SSL",): tls.expires_s}
    assert values(metrics, "barnabas_tls_reloads_total") == {("SSL",): 4}
    assert values(metrics, "barnabas_tls_reload_failures_total") == {("SSL",): 5}
