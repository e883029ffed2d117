"""Kerberos by the library gssapi (the extra `kerberos`, over MIT's libkrb5): keys, tickets, contexts, and their errors.

The library is imported where a login by GSSAPI is configured, and nowhere else: everything here calls it through
`library`. Servers get an Acceptor; clients a KerberosLogin, which makes a GssapiClient for each connection.

Steps of contexts may take long, as libkrb5 reads files and asks the KDC: a server runs them in a thread.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from barnabas.security.errors import SaslClientError, SettingError
from barnabas.security.gss_layer import GssLayerError, choice_of
from barnabas.security.kerberos_options import GSSAPI, MISSING_LIBRARY, KerberosOptions

REPLAY_CACHE: Final = "dfl:"
"""MIT's own, named so that no environment variable turns it off: it holds the authenticators of the last minutes."""
_KRB5_ERRORS: Final = -1765328384
"""ERROR_TABLE_BASE_krb5: the errors of RFC 4120 are counted from here."""
_RETRIABLE: Final = frozenset(_KRB5_ERRORS + code for code in (21, 33, 34))
"""Client or ticket not valid yet, a replay: what Kafka's KerberosError calls retriable."""


class KerberosMissingError(Exception):
    """The extra or libkrb5 is not installed; the text is the rest of "must ..."."""


class KerberosError(Exception):
    """libkrb5 rejects a token, or has no key or ticket. `is_retriable`: the same login may succeed later."""

    def __init__(self, text: str, *, is_retriable: bool = False) -> None:
        super().__init__(text)
        self.is_retriable = is_retriable


def library() -> Any:
    """The module gssapi. Raises KerberosMissingError."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise KerberosMissingError(f"{MISSING_LIBRARY}; {error}") from None


def explained(error: Any) -> KerberosError:
    """What a GSSError means, without its numbers."""
    statuses: Sequence[str] = error.get_all_statuses(error.min_code, False) if error.min_code else ()
    texts = [text for text in statuses if text and text != "Success"]
    if not texts:
        texts = list(error.get_all_statuses(error.maj_code, True))
    code = error.min_code - (1 << 32) if error.min_code >= 1 << 31 else error.min_code
    return KerberosError("; ".join(texts) or type(error).__name__, is_retriable=code in _RETRIABLE)


def default_realm() -> str:
    """That of krb5.conf; empty without one."""
    gssapi = library()
    try:
        name = gssapi.Name("x", gssapi.NameType.kerberos_principal)
        return str(name.canonicalize(gssapi.MechType.kerberos)).rpartition("@")[2]
    except gssapi.exceptions.GSSError:
        return ""


class Acceptor:
    """The keys of a server. The keytab is read with each login, so that new keys count at once."""

    def __init__(self, options: KerberosOptions) -> None:
        """Raises KerberosMissingError, and KerberosError where the keytab cannot be read or lacks the principal."""
        self._gssapi = gssapi = library()
        keytab = {} if options.keytab is None else {"keytab": options.keytab}
        try:
            self._keys = gssapi.Credentials(
                name=gssapi.Name(options.principal, gssapi.NameType.kerberos_principal),
                usage="accept",
                mechs=[gssapi.MechType.kerberos],
                store={**keytab, "rcache": REPLAY_CACHE},
            )
        except gssapi.exceptions.GSSError as error:
            raise explained(error) from None

    def context(self) -> AcceptorContext:
        """That of one login."""
        return AcceptorContext(self._gssapi, _context_class(self._gssapi)(creds=self._keys, usage="accept"))


@cache
def _context_class(gssapi: Any) -> Any:
    """SecurityContext, but with errors where they happen: otherwise one that has a token for the peer comes with the
    next step.
    """
    made = type("SecurityContext", (gssapi.SecurityContext,), {})
    setattr(made, "__DEFER_STEP_ERRORS__", False)  # noqa: B010  # its metaclass sets it while the class is made
    return made


class Context:
    """A security context, whose errors are KerberosErrors."""

    def __init__(self, gssapi: Any, context: Any) -> None:
        self._gssapi = gssapi
        self._context = context

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes | None) -> bytes:
        """The answer to the peer's token, which may be empty. Raises KerberosError."""
        try:
            return bytes(self._context.step(token) or b"")
        except self._gssapi.exceptions.GSSError as error:
            raise explained(error) from None

    def wrap(self, message: bytes) -> bytes:
        """Raises KerberosError."""
        try:
            return bytes(self._context.wrap(message, False).message)
        except self._gssapi.exceptions.GSSError as error:
            raise explained(error) from None

    def unwrap(self, token: bytes) -> bytes:
        """Raises KerberosError where the token is not the peer's."""
        try:
            return bytes(self._context.unwrap(token).message)
        except self._gssapi.exceptions.GSSError as error:
            raise explained(error) from None


class AcceptorContext(Context):
    """That of a server."""

    @property
    def principal(self) -> str:
        """The client's principal, once the context is complete. Raises KerberosError for an anonymous one."""
        if self._context.mech != self._gssapi.MechType.kerberos:
            raise KerberosError("it is not Kerberos by which the client has authenticated")
        if self._gssapi.RequirementFlag.anonymity in self._context.actual_flags:
            raise KerberosError("the client is anonymous")
        return str(self._context.initiator_name)


class GssapiClient:
    """One login of a client, as bytes; libkrb5 asks the KDC for what it needs.

    sends                          | receives
    -------------------------------+------------------------------------------
    AP-REQ                         |
    nothing                        | AP-REP, which proves that it is the server
    its choice                     | the protections that the server offers
                                   | nothing
    """

    mechanism = GSSAPI
    blocks = True

    def __init__(self, begin: Callable[[], Context]) -> None:
        """`begin` makes the context; it raises KerberosError without tickets or keys."""
        self._begin = begin
        self._context: Context | None = None
        self._has_chosen = False

    def initial(self) -> bytes:
        """The first token. Raises SaslClientError."""
        try:
            self._context = self._begin()
        except KerberosError as error:
            raise SaslClientError(f"Kerberos: {error}") from None
        return self._step(self._context, None)

    def respond(self, challenge: bytes) -> bytes | None:
        """None where the login is complete. Raises SaslClientError."""
        context = self._context
        assert context is not None, "the first message was not made"
        if not context.is_complete:
            return self._step(context, challenge)
        if self._has_chosen:
            if challenge:
                raise SaslClientError("the server goes on after GSSAPI is complete")
            return None
        self._has_chosen = True
        try:
            return context.wrap(choice_of(context.unwrap(challenge)))
        except (KerberosError, GssLayerError) as error:
            raise SaslClientError(str(error)) from None

    def _step(self, context: Context, token: bytes | None) -> bytes:
        try:
            return context.step(token)
        except KerberosError as error:
            raise SaslClientError(f"Kerberos: {error}") from None


class KerberosLogin:
    """A client's login by GSSAPI: with the tickets of a cache, or with tickets that libkrb5 gets by a keytab.

    The tickets of a keytab are kept in memory, for all connections of this login, and replaced before they expire.
    """

    mechanism = GSSAPI

    def __init__(self, options: KerberosOptions) -> None:
        """Raises KerberosMissingError."""
        self._gssapi = library()
        self._options = options
        self._cache = f"MEMORY:barnabas-{os.getpid()}-{id(self)}"

    @property
    def user(self) -> str:
        """Whose login it is, for messages."""
        return self._options.principal or "the principal of the ticket cache"

    def client(self, host: str) -> GssapiClient:
        """That of one login at the server on this host."""
        return GssapiClient(lambda: self._context(host))

    def _context(self, host: str) -> Context:
        """Raises KerberosError without tickets or keys."""
        gssapi = self._gssapi
        service = gssapi.Name(f"{self._options.service_name}@{host}", gssapi.NameType.hostbased_service)
        try:
            context = _context_class(gssapi)(
                name=service,
                creds=self._credentials(),
                usage="initiate",
                flags=[
                    gssapi.RequirementFlag.mutual_authentication,
                    gssapi.RequirementFlag.out_of_sequence_detection,
                    gssapi.RequirementFlag.integrity,
                ],
                mech=gssapi.MechType.kerberos,
            )
        except gssapi.exceptions.GSSError as error:
            raise explained(error) from None
        return Context(gssapi, context)

    def _credentials(self) -> Any:
        """Those of the cache if it has any that hold, and else those of the keytab. Raises GSSError."""
        options = self._options
        if options.uses_ticket_cache:
            cache = {} if options.ticket_cache is None else {"ccache": options.ticket_cache}
            try:
                found = self._acquired(cache)
                is_valid = found.lifetime != 0
            except self._gssapi.exceptions.GSSError:
                if not options.uses_keytab:
                    raise
                is_valid = False
            if is_valid or not options.uses_keytab:
                return found
        keytab = {} if options.keytab is None else {"client_keytab": options.keytab}
        return self._acquired({**keytab, "ccache": self._cache})

    def _acquired(self, store: dict[str, str]) -> Any:
        gssapi, principal = self._gssapi, self._options.principal
        name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(
            name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KerberosLogin) and self._options == other._options

    def __hash__(self) -> int:
        return hash(self._options)

    def __repr__(self) -> str:
        return f"<KerberosLogin as {self.user}>"


def kerberos_login(options: KerberosOptions, mechanism_key: str) -> KerberosLogin:
    """Raises SettingError about the key of the mechanism where the library is missing."""
    try:
        return KerberosLogin(options)
    except KerberosMissingError as error:
        raise SettingError(mechanism_key, GSSAPI, str(error)) from None
