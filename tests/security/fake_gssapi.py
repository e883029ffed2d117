"""A stand-in for the library gssapi, so that what calls it is tried on machines without Kerberos.

Its tokens are texts: a client sends "AP-REQ <principal> <service>", a server with the service's key answers "AP-REP",
and messages are wrapped as "<principal>: <message>". tests/interop/test_kerberos.py tries the real one.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

REPLAY = -1765328384 + 34 + (1 << 32)
KEYTABS = {"/kafka.keytab": ["kafka/h@R"], "/alice.keytab": ["alice@R"]}
CACHES = {"/alice.ccache": ("alice@R", 600), "/expired.ccache": ("alice@R", 0)}


class GSSError(Exception):
    def __init__(self, minor: str, min_code: int = 7, major: str = "Unspecified GSS failure") -> None:
        super().__init__(f"Major (1): {major}, Minor ({min_code}): {minor}")
        self.maj_code, self.min_code = 1, min_code
        self._texts = {True: major, False: minor}

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        return [self._texts[is_major]]


class Name:
    def __init__(self, base: str, name_type: str) -> None:
        self.base, self.name_type = base, name_type

    def canonicalize(self, mech: str) -> Name:
        if fake.realm is None:
            raise GSSError("Configuration file does not specify default realm")
        return Name(f"{self.base}@{fake.realm}", self.name_type)

    def __str__(self) -> str:
        return self.base


class Credentials:
    def __init__(
        self, *, name: Name | None, usage: str, mechs: Sequence[str], store: dict[str, str] | None
    ) -> None:
        fake.stores.append((usage, store))
        self.lifetime = 600
        store = store or {}
        if "client_keytab" in store or "keytab" in store:
            path = store.get("keytab") or store["client_keytab"]
            if path not in KEYTABS:
                raise GSSError(f"Key table file '{path}' not found")
            if str(name) not in KEYTABS[path]:
                raise GSSError(f"No key table entry found for {name}")
            self.principal = str(name)
        elif store.get("ccache", "/default.ccache") in CACHES:
            self.principal, self.lifetime = CACHES[store.get("ccache", "")]
        else:
            raise GSSError("No Kerberos credentials available")


class SecurityContext:
    def __init__(
        self,
        *,
        creds: Credentials,
        usage: str,
        name: Name | None = None,
        flags: Sequence[str] = (),
        mech: str = "krb5",
    ) -> None:
        self.creds, self.usage, self.name = creds, usage, name
        self.complete = False
        self.mech = mech
        self.actual_flags: list[str] = []
        self.initiator_name = creds.principal

    def step(self, token: bytes | None) -> bytes | None:
        if self.usage == "initiate":
            if token is None:
                return f"AP-REQ {self.creds.principal} {self.name}".encode()
            if token != b"AP-REP":
                raise GSSError("", 0, "Invalid token was supplied")
            self.complete = True
            return None
        kind, _, rest = (token or b"").decode().partition(" ")
        if kind == "REPLAY":
            raise GSSError("Request is a replay", REPLAY)
        if kind not in ("AP-REQ", "ANONYMOUS", "SPNEGO"):
            raise GSSError("Success", 0, "Invalid token was supplied")
        self.initiator_name, self.complete = rest.split()[0], True
        self.actual_flags = ["anonymity"] if kind == "ANONYMOUS" else []
        self.mech = "spnego" if kind == "SPNEGO" else "krb5"
        return b"AP-REP"

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        if not self.complete:
            raise GSSError("", 0, "The context has expired")
        return types.SimpleNamespace(message=b"wrapped " + message)

    def unwrap(self, token: bytes) -> Any:
        if not token.startswith(b"wrapped "):
            raise GSSError("", 0, "A token had an invalid Message Integrity Check (MIC)")
        return types.SimpleNamespace(message=token.removeprefix(b"wrapped "))


class FakeGssapi(types.ModuleType):
    """What stands in sys.modules; `realm` is the default one, `stores` what credentials were asked for."""

    def __init__(self) -> None:
        super().__init__("gssapi")
        self.realm: str | None = "R"
        self.stores: list[tuple[str, dict[str, str] | None]] = []
        self.Name, self.Credentials, self.SecurityContext = Name, Credentials, SecurityContext
        self.NameType = types.SimpleNamespace(kerberos_principal="principal", hostbased_service="service")
        self.MechType = types.SimpleNamespace(kerberos="krb5")
        self.RequirementFlag = types.SimpleNamespace(
            anonymity="anonymity", mutual_authentication="m", out_of_sequence_detection="o", integrity="i"
        )
        self.exceptions = types.SimpleNamespace(GSSError=GSSError)


fake = FakeGssapi()


def installed(patch: Any) -> FakeGssapi:
    """Puts the stand-in into the place of the library, as it is at first."""
    import sys

    fake.realm = "R"
    fake.stores.clear()
    patch.setitem(sys.modules, "gssapi", fake)
    return fake
