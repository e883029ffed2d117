"""An MIT KDC on loopback for tests of Kerberos, with configuration, database and ports of its own.

    with Kdc(directory) as kdc:
        keytab = kdc.keytab("alice")       # makes the principal
        environment = kdc.environment      # for whatever is to use it

Nothing of the machine's own Kerberos is read or changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pytest

from tests.support.ports import held_ports

REALM = "BARNABAS.TEST"
SERVICE = f"kafka/localhost@{REALM}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
START_LIMIT_S = 30.0
PROGRAMS = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit")
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])

_KRB5_CONF = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    ticket_lifetime = 10m
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
    OTHER.TEST = {{
        kdc = 127.0.0.1:1
    }}
[domain_realm]
    localhost = {realm}
"""
_KDC_CONF = """\
[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        acl_file = {directory}/kadm5.acl
        max_life = 1h
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    kdc = FILE:{directory}/kdc.log
"""


def require_kdc() -> None:
    """Skips the test where the programs of a KDC are missing."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        pytest.skip(f"there is no MIT KDC: {', '.join(missing)}")


def require_gssapi() -> None:
    """Skips the test where the extra `kerberos` is not installed."""
    pytest.importorskip("gssapi", reason="the extra kerberos is not installed", exc_type=ImportError)


class Kdc:
    """A running KDC of REALM."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._principals: set[str] = set()
        (self._port,) = held_ports(1)

    @property
    def krb5_conf(self) -> Path:
        return self.directory / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which programs of MIT Kerberos use this KDC, and no credential of the machine's user."""
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5CCNAME": str(self.directory / "ccache"),
            "KRB5RCACHEDIR": str(self.directory),
        }

    def start(self) -> Kdc:
        """Makes the database, and starts the KDC."""
        self.directory.mkdir(parents=True, exist_ok=True)
        values = {"realm": REALM, "port": self._port, "directory": self.directory}
        self.krb5_conf.write_text(_KRB5_CONF.format(**values))
        (self.directory / "kdc.conf").write_text(_KDC_CONF.format(**values))
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        program = shutil.which("krb5kdc", path=_PATH)
        assert program is not None
        with (self.directory / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                [program, "-n", "-r", REALM, "-P", str(self.directory / "pid")],
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        self._await_ready()
        return self

    def _await_ready(self) -> None:
        log, deadline = self.directory / "kdc.log", time.monotonic() + START_LIMIT_S
        while not (log.exists() and "commencing operation" in log.read_text()):
            assert self._process is not None
            assert self._process.poll() is None, (self.directory / "console.log").read_text()
            assert time.monotonic() < deadline, "the KDC does not start"
            time.sleep(0.02)

    def principal(self, name: str) -> str:
        """Makes a principal with random keys, unless it is there; returns its whole name."""
        if name not in self._principals:
            self._admin("addprinc", "-randkey", name)
            self._principals.add(name)
        return f"{name}@{REALM}"

    def keytab(self, *names: str, file: str = "") -> str:
        """The path of a file with the keys of these principals, which are made where they are not there."""
        path = self.directory / (file or f"{names[0].replace('/', '-')}.keytab")
        if not path.exists():
            for name in names:
                self.principal(name)
                self._admin("ktadd", "-norandkey", "-k", str(path), name)
        return str(path)

    def wrong_keytab(self, name: str) -> str:
        """The path of a file with keys that the principal had and has no more."""
        self.principal(name)
        path = self.directory / f"{name.replace('/', '-')}.wrong.keytab"
        if not path.exists():
            twin = f"{name}-twin"
            self._admin("addprinc", "-randkey", twin)
            self._admin("ktadd", "-norandkey", "-k", f"{path}.twin", twin)
            data = Path(f"{path}.twin").read_bytes()
            path.write_bytes(_renamed(data, twin.encode(), name.encode()))
        return str(path)

    def ticket_cache(self, name: str, *, service: str = "") -> str:
        """The path of a new cache with a ticket of this principal; for one service alone where that is given."""
        path = self.directory / f"{name.replace('/', '-')}.ccache"
        words = ["-c", str(path), "-k", "-t", self.keytab(name)]
        self._run("kinit", *words, *(["-S", service] if service else []), name)
        return str(path)

    def _admin(self, *words: str) -> None:
        self._run("kadmin.local", "-r", REALM, "-q", " ".join(words))

    def _run(self, program: str, *words: str) -> None:
        found = shutil.which(program, path=_PATH)
        assert found is not None
        ran = subprocess.run(
            [found, *words],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_LIMIT_S,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "error" not in ran.stderr.lower(), ran.stderr

    def stop(self) -> None:
        """Ends the KDC; its database stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_LIMIT_S)
            self._process = None

    def __enter__(self) -> Kdc:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _renamed(keytab: bytes, name: bytes, to: bytes) -> bytes:
    """A keytab of version 2 whose entries have another principal: one component, or two with a slash between."""
    out, at = [keytab[:2]], 2
    while at + 4 <= len(keytab):
        size = int.from_bytes(keytab[at : at + 4], "big", signed=True)
        entry, at = keytab[at + 4 : at + 4 + abs(size)], at + 4 + abs(size)
        if size > 0:
            made = _renamed_entry(entry, name, to)
            out += [len(made).to_bytes(4, "big"), made]
    return b"".join(out)


def _renamed_entry(entry: bytes, name: bytes, to: bytes) -> bytes:
    realm_size = int.from_bytes(entry[2:4], "big")
    realm = entry[2 : 4 + realm_size]
    rest = entry[4 + realm_size + sum(2 + len(part) for part in name.split(b"/")) :]
    parts = to.split(b"/")
    return len(parts).to_bytes(2, "big") + realm + b"".join(_counted(part) for part in parts) + rest


def _counted(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def server_entry(keytab: str, principal: str = SERVICE, **more: str) -> str:
    """The value of sasl.jaas.config of a broker with the keys of this keytab."""
    return client_entry(keytab, principal, storeKey="true", **more)


def client_entry(keytab: str, principal: str, **more: str) -> str:
    """That of a client that logs in by a keytab."""
    options = {"useKeyTab": "true", "keyTab": keytab, "principal": principal, "serviceName": "kafka", **more}
    return entry(**options)


def entry(**options: str) -> str:
    return (
        f"{MODULE} required {' '.join(f'{key}={chr(34)}{value}{chr(34)}' for key, value in options.items())};"
    )
