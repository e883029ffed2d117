from __future__ import annotations

import logging
import time

import pytest

from barnabas.broker.security.tls_listener import (
    UNKNOWN_TIME,
    ReplacementRules,
    TlsListener,
    modified_ns,
)
from barnabas.security.errors import SettingError
from barnabas.security.settings import TlsSettings
from tests.support.certificates import Authority, Identity

CA = Authority()
BROKER = CA.issue("broker", ["localhost"])


class Disk:
    """Files with times of modification."""

    def __init__(self, **files: str) -> None:
        self.files = dict(files)
        self.times = dict.fromkeys(files, 1)

    def write(self, name: str, text: str) -> None:
        self.files[name] = text
        self.times[name] = self.times.get(name, 0) + 1

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory")
        return self.files[path].encode()

    def modified(self, path: str) -> int:
        return self.times.get(path, UNKNOWN_TIME)


def pem(identity: Identity) -> str:
    return identity.key_pem() + identity.chain_pem()


def settings(key: str = "key", trust: str | None = "ca") -> TlsSettings:
    texts = {"ssl.keystore.type": "PEM", "ssl.keystore.location": key}
    if trust is not None:
        texts |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": trust}
    return TlsSettings(texts)


@pytest.fixture
def disk() -> Disk:
    return Disk(key=pem(BROKER), ca=CA.pem)


def listener(
    disk: Disk, given: TlsSettings | None = None, rules: ReplacementRules | None = None
) -> TlsListener:
    return TlsListener(
        "SSL", given or settings(), rules or ReplacementRules(), read=disk.read, modified=disk.modified
    )


def test_a_listener_begins_with_what_its_settings_name(disk: Disk) -> None:
    tls = listener(disk)
    assert tls.settings == settings()
    assert tls.trusted == (CA.der,)
    assert tls.expires_s == pytest.approx(time.time() + 2 * 86_400, abs=3600)
    assert not tls.has_changed(settings())
    assert (tls.reloads, tls.reload_failures) == (0, 0)


def test_a_listener_does_not_begin_without_a_key(disk: Disk) -> None:
    with pytest.raises(SettingError, match=r"ssl.keystore.location=other cannot be read"):
        listener(disk, settings("other"))


def test_a_file_that_has_changed_is_read_again(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    tls = listener(disk)
    before = tls.context
    disk.write("key", pem(CA.issue("broker", ["localhost"], ends_in_days=9)))
    assert tls.has_changed(settings())
    loaded = tls.load(settings())
    tls.check(loaded, tls.rules)
    with caplog.at_level(logging.INFO, "barnabas.security"):
        tls.adopt(loaded)
    assert tls.context is not before
    assert tls.expires_s == pytest.approx(time.time() + 9 * 86_400, abs=3600)
    assert tls.reloads == 1
    assert not tls.has_changed(settings())
    assert "listener SSL: its certificate and trusted certificates were read again" in caplog.text


def test_a_file_that_was_touched_only_is_no_news(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    tls = listener(disk)
    disk.write("key", pem(BROKER))
    with caplog.at_level(logging.INFO, "barnabas.security"):
        tls.adopt(tls.load(settings()))
    assert caplog.text == ""


def test_what_failed_is_not_tried_again_until_it_changes(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    tls = listener(disk)
    before = tls.context
    disk.write("key", "damaged")
    with pytest.raises(SettingError) as caught:
        tls.load(settings())
    tls.failed(settings(), caught.value)
    assert tls.context is before
    assert tls.reload_failures == 1
    assert (
        "listener SSL keeps the certificates that it has: ssl.keystore.location=key has no private"
        in caplog.text
    )
    assert not tls.has_changed(settings())
    disk.write("key", pem(BROKER))
    assert tls.has_changed(settings())


def refusal(tls: TlsListener, given: TlsSettings, rules: ReplacementRules | None = None) -> str:
    with pytest.raises(SettingError) as caught:
        tls.check(tls.load(given), rules or ReplacementRules())
    return caught.value.phrase or ""


def test_another_name_needs_permission(disk: Disk) -> None:
    tls = listener(disk)
    disk.write("other", pem(CA.issue("other", ["localhost"])))
    assert "DistinguishedName does not match" in refusal(tls, settings("other"))
    tls.check(tls.load(settings("other")), ReplacementRules(allow_dn_changes=True))
    disk.write("fewer", pem(CA.issue("broker")))
    assert "SubjectAltNames do not match" in refusal(tls, settings("fewer"))
    tls.check(tls.load(settings("fewer")), ReplacementRules(allow_san_changes=True))


def test_a_trust_store_is_not_added_to_an_open_listener(disk: Disk) -> None:
    tls = listener(disk, settings(trust=None))
    assert "Cannot add SSL truststore to an existing listener" in refusal(tls, settings())


def test_brokers_have_to_trust_their_own_listener(disk: Disk) -> None:
    rules = ReplacementRules(is_inter_broker=True)
    tls = listener(disk, rules=rules)
    disk.write("foreign", pem(Authority("Other").issue("broker", ["localhost"])))
    assert "can't connect to a server SSLEngine" in refusal(tls, settings("foreign"), rules)
    tls.check(tls.load(settings("foreign")), ReplacementRules())
    with pytest.raises(SettingError, match="own trust store"):
        listener(disk, settings("foreign"), rules)


def test_times_of_files_on_a_disk(tmp_path: object) -> None:
    assert modified_ns(__file__) > 0
    assert modified_ns("/no/such/file") == UNKNOWN_TIME
    assert modified_ns("a\0b") == UNKNOWN_TIME
