from __future__ import annotations

from barnabas.config.catalogue import BROKER_KEYS, http, tls


def test_the_keys_of_the_port_are_those_of_listeners() -> None:
    for name, key in http.keys.by_name.items():
        of_listeners = BROKER_KEYS.get(name.removeprefix("barnabas.http."))
        if of_listeners is None:
            assert key is http.BARNABAS_HTTP_SECURITY_PROTOCOL
            continue
        assert key.sensitive is of_listeners.sensitive, name


def test_constants_are_named_as_the_keys() -> None:
    for name, key in http.keys.by_name.items():
        assert getattr(http, name.upper().replace(".", "_")) is key


def test_certificates_of_clients_are_asked_for_in_the_same_words() -> None:
    assert http.BARNABAS_HTTP_SSL_CLIENT_AUTH.requirement == tls.SSL_CLIENT_AUTH.requirement
