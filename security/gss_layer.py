"""The messages behind the tokens of Kerberos in a login by GSSAPI: which protection, and who the client wants to be.

    server: 01 00 00 00                   the protections that it offers, a bit each, and the largest message it takes
    client: 01 00 00 00 <authorization id> the one that it chooses, and a name in UTF-8, which may be empty

Each is wrapped by GSS_Wrap, without encryption. Only "no protection" (1) is offered and chosen, for which the size is
0: TLS protects what comes after the login. Source: RFC 4752, sections 3.1 to 3.3; com.sun.security.sasl.gsskerb.
"""

from __future__ import annotations

from typing import Final

NO_PROTECTION: Final = 1
_HEAD_BYTES: Final = 4
OFFER: Final = bytes((NO_PROTECTION, 0, 0, 0))
"""The message of a server."""


class GssLayerError(ValueError):
    """The message is not of its form, or asks for what is not there."""


def choice_of(offer: bytes) -> bytes:
    """The answer of a client, which wants to be whom it has authenticated as. Raises GssLayerError."""
    if len(offer) != _HEAD_BYTES:
        raise GssLayerError(f"the server's protections have {len(offer)} bytes, not {_HEAD_BYTES}")
    if not offer[0] & NO_PROTECTION:
        raise GssLayerError("the server asks for protection by Kerberos, which Kafka does not have: use TLS")
    return OFFER


def authorization_id_of(choice: bytes) -> str:
    """The name in the answer of a client, empty for its own. Raises GssLayerError for any choice but no protection."""
    if len(choice) < _HEAD_BYTES:
        raise GssLayerError(f"the client's choice of a protection has {len(choice)} bytes")
    if choice[0] != NO_PROTECTION:
        raise GssLayerError(f"the client chooses protection {choice[0]}, and 1, none, is offered")
    try:
        return choice[_HEAD_BYTES:].decode()
    except UnicodeDecodeError:
        raise GssLayerError("the client's authorization id is no UTF-8") from None
