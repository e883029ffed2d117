"""SaslHandshake and SaslAuthenticate to a listener without logins.

Those of logins are in tests.conformance.sasl_scripts.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue


@dialogue(ApiKey.SASL_HANDSHAKE, 0, 1)
def handshakes_without_sasl(client: DialogueClient) -> None:
    for mechanism in ("PLAIN", "GSSAPI", ""):
        client.request(SaslHandshakeRequest(mechanism=mechanism))


@dialogue(ApiKey.SASL_AUTHENTICATE, 0, 2)
def tokens_without_sasl(client: DialogueClient) -> None:
    for token in (b"", b"\0alice\0pencil"):
        client.request(SaslAuthenticateRequest(auth_bytes=token))
