from __future__ import annotations

from pathlib import Path

from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.metrics.tls_metrics import add_tls
from barnabas.broker.network.listener_security import ListenerSecurity
from barnabas.broker.probes import SocketServerProbe
from tests.broker.metrics.test_sources import values
from tests.broker.network.tls_listeners import securities, stores_of, write_certificates
from tests.broker.security.sasl.logins import listener


async def test_certificates_and_ciphers(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    made, probe = securities(tmp_path), SocketServerProbe()
    both = [*made.by_name.values(), ListenerSecurity("SASL_PLAINTEXT", listener())]
    probe.listener("PLAINTEXT")
    probe.listener("SSL").connections_by_cipher = {("TLS_AES_256_GCM_SHA384", "TLSv1.3"): 1}
    stores = stores_of(made)
    stores.reloads, stores.reload_failures = 4, 5
    metrics = Metrics()
    add_tls(metrics, probe, lambda: both)
    assert values(metrics, "kafka_server_socket_server_metrics_connections_cipher") == {
        ("TLS_AES_256_GCM_SHA384", "TLSv1.3", "SSL"): 1
    }
    expires_s = stores.expires_s
    assert values(metrics, "barnabas_tls_certificate_expiry_timestamp_seconds") == {("SSL",): expires_s}
    assert values(metrics, "barnabas_tls_reloads_total") == {("SSL",): 4}
    assert values(metrics, "barnabas_tls_reload_failures_total") == {("SSL",): 5}


async def test_certificates_of_others(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    stores, metrics = stores_of(securities(tmp_path)), Metrics()
    add_tls(metrics, SocketServerProbe(), list, [stores])
    assert values(metrics, "barnabas_tls_reloads_total") == {("SSL",): 0}
