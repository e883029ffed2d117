from __future__ import annotations

import pytest

from barnabas.security.client_settings import NO_SECURITY, client_security
from barnabas.security.errors import SettingError
from barnabas.security.sasl_client import SaslLogin
from barnabas.security.settings import TlsSettings
from tests.support.certificates import Authority

JAAS = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'PlainLoginModule required username="u" password="p";'}
LOGIN = SaslLogin("PLAIN", "u", "p")
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": Authority().pem}


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ({}, ("PLAINTEXT", None, None)),
        ({"security.protocol": "plaintext"}, ("PLAINTEXT", None, None)),
        ({"security.protocol": "SSL"}, ("SSL", TlsSettings(TRUST), None)),
        ({"security.protocol": "SASL_PLAINTEXT"}, ("SASL_PLAINTEXT", None, LOGIN)),
        ({"security.protocol": "SASL_SSL"}, ("SASL_SSL", TlsSettings(TRUST), LOGIN)),
    ],
)
def test_a_protocol_has_its_parts(protocol: dict[str, str], expected: object) -> None:
    assert client_security({**protocol, **JAAS, **TRUST}) == expected


def test_the_context_is_made_from_the_stores() -> None:
    assert NO_SECURITY.context() is None
    context = client_security({"security.protocol": "SSL", **TRUST}).context()
    assert context is not None
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(SettingError, match=r"security.protocol=TLS must be one of PLAINTEXT, SSL"):
        client_security({"security.protocol": "TLS"})
