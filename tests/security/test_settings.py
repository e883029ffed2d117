from barnabas.security.settings import CIPHER_SUITES, KEYSTORE_PASSWORD, KEYSTORE_TYPE, TlsSettings


def test_a_key_that_is_not_set_has_its_default() -> None:
    settings = TlsSettings({"ssl.keystore.password": "p", "num.partitions": "1"})
    assert (settings[KEYSTORE_TYPE], settings[KEYSTORE_PASSWORD]) == ("JKS", "p")
    assert settings["ssl.keystore.location"] is None
    assert settings.texts == {"ssl.keystore.password": "p"}


def test_lists_have_each_word_once() -> None:
    assert TlsSettings({CIPHER_SUITES: " A, B,,A"}).words(CIPHER_SUITES) == ("A", "B")
    assert TlsSettings({}).words(CIPHER_SUITES) == ()


def test_settings_are_equal_by_what_was_set_and_show_no_secret() -> None:
    one, same = TlsSettings({KEYSTORE_PASSWORD: "p"}), TlsSettings({KEYSTORE_PASSWORD: "p"})
    assert one == same
    assert hash(one) == hash(same)
    assert one != TlsSettings({KEYSTORE_TYPE: "JKS"})
    assert one != "p"
    assert repr(TlsSettings({KEYSTORE_PASSWORD: "p", KEYSTORE_TYPE: "PEM"})) == (
        "<TlsSettings ssl.keystore.type=PEM ssl.keystore.password=[hidden]>"
    )
