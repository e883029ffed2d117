"""The options of Krb5LoginModule and the name of the service: which keys, or which tickets, a login by Kerberos has.

    option                     | server                            | client
    ---------------------------+-----------------------------------+-----------------------------------------------
    useKeyTab, keyTab          | required; without keyTab the      | keys, from which libkrb5 gets tickets by itself
                               | default keytab of krb5.conf       |
    storeKey                   | required, as in Kafka             | no effect
    principal                  | required                          | required with a keytab; in a cache it is checked
    useTicketCache, ticketCache| refused: tickets prove nothing    | tickets of kinit, before the keytab where both are
                               | to clients                        | asked for
    serviceName                | here or in sasl.kerberos.service.name; both may not differ

Combinations that the JVM rejects are refused here as well. Options that only shape a login by password, its output or
its renewal (doNotPrompt, refreshKrb5Config, renewTGT, clearPass, debug ...) have no effect.

Source: com.sun.security.auth.module.Krb5LoginModule, org.apache.kafka.common.security.kerberos.KerberosLogin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

LOGIN_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE_NAME: Final = "sasl.kerberos.service.name"
GSSAPI: Final = "GSSAPI"
SERVER_EXAMPLE: Final = (
    'useKeyTab=true storeKey=true keyTab="/etc/barnabas/kafka.keytab" '
    'principal="kafka/host.example.com@EXAMPLE.COM" serviceName="kafka"'
)
CLIENT_EXAMPLE: Final = (
    f'{LOGIN_MODULE} required useKeyTab=true keyTab="..." principal="alice@EXAMPLE.COM" serviceName="kafka";'
)
MISSING_LIBRARY: Final = (
    "needs the extra `kerberos`: pip install barnabas[kerberos], and MIT Kerberos (the packages libkrb5-3 and "
    "libgssapi-krb5-2 of Debian; libkrb5-dev to install the extra)"
)


class KerberosOptionsError(ValueError):
    """The options contradict each other, or ask for what cannot be; the text is the rest of "must ..."."""


class KerberosOptions(NamedTuple):
    """What a login module's options ask for. A keytab or cache of None is the default one of krb5.conf."""

    service_name: str
    principal: str | None
    uses_keytab: bool
    keytab: str | None
    uses_ticket_cache: bool = False
    ticket_cache: str | None = None


def server_options(options: Mapping[str, str], service_name: str | None) -> KerberosOptions:
    """`service_name` is sasl.kerberos.service.name. Raises KerberosOptionsError."""
    _check(options)
    if _is_true(options, "useTicketCache"):
        raise KerberosOptionsError(
            "have no useTicketCache: a server has no use for tickets, it needs the keys of a keytab"
        )
    if not _is_true(options, "useKeyTab"):
        raise KerberosOptionsError("have useKeyTab=true: a server needs the keys of a keytab")
    if not _is_true(options, "storeKey"):
        raise KerberosOptionsError("have storeKey=true: a server accepts clients by its keys")
    principal = options.get("principal")
    if not principal or principal == "*":
        raise KerberosOptionsError('have one principal="service/host@REALM" that clients ask for')
    return KerberosOptions(
        _service_name(options, service_name), principal, True, _path(options.get("keyTab"))
    )


def client_options(options: Mapping[str, str], service_name: str | None) -> KerberosOptions:
    """`service_name` is sasl.kerberos.service.name of the client. Raises KerberosOptionsError."""
    _check(options)
    uses_keytab, uses_cache = _is_true(options, "useKeyTab"), _is_true(options, "useTicketCache")
    if not uses_keytab and not uses_cache:
        raise KerberosOptionsError("have useKeyTab=true or useTicketCache=true: a password is not asked for")
    principal = options.get("principal") or None
    if principal == "*":
        raise KerberosOptionsError("name one principal: * is for servers alone")
    if uses_keytab and principal is None:
        raise KerberosOptionsError(
            'have principal="name@REALM" beside useKeyTab: a keytab may have keys of several'
        )
    if options.get("isInitiator", "true").lower() == "false":
        raise KerberosOptionsError("not have isInitiator=false: a client begins logins")
    return KerberosOptions(
        _service_name(options, service_name),
        principal,
        uses_keytab,
        _path(options.get("keyTab")),
        uses_cache,
        _path(options.get("ticketCache")),
    )


def _check(options: Mapping[str, str]) -> None:
    """What the JVM rejects, whoever logs in."""
    for name, needed in (
        ("keyTab", "useKeyTab"),
        ("ticketCache", "useTicketCache"),
        ("renewTGT", "useTicketCache"),
    ):
        asks = _is_true(options, name) if name == "renewTGT" else name in options
        if asks and not _is_true(options, needed):
            raise KerberosOptionsError(f"have {needed}=true where they have {name}")
    for name in ("useFirstPass", "tryFirstPass"):
        if _is_true(options, name):
            raise KerberosOptionsError(
                f"not have {name}: there is no module before this one, and no password"
            )


def _service_name(options: Mapping[str, str], configured: str | None) -> str:
    own = options.get("serviceName") or None
    if own and configured and own != configured:
        raise KerberosOptionsError(
            f"have the serviceName of {SERVICE_NAME}, which is {configured}, or none; they have {own}"
        )
    name = own or configured
    if not name:
        raise KerberosOptionsError(
            f'have serviceName="kafka", or {SERVICE_NAME} must be set: the first part of the brokers\' principals'
        )
    return name


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _path(text: str | None) -> str | None:
    """Java takes names of files with and without FILE: before them."""
    if not text:
        return None
    return text[5:] if text[:5].upper() == "FILE:" else text
