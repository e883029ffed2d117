from barnabas.security.errors import SettingError


def test_the_text_names_the_key_and_what_would_be_right() -> None:
    assert str(SettingError("ssl.protocol", "SSLv3", "must be TLS")) == "ssl.protocol=SSLv3 must be TLS"
    assert str(SettingError("ssl.key.password", None, "must be set")) == "ssl.key.password must be set"
