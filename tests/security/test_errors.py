from barnabas.security.errors import ProviderError, SettingError


def test_the_text_names_the_key_and_what_would_be_right() -> None:
    assert str(SettingError("ssl.protocol", "SSLv3", "must be TLS")) == "ssl.protocol=SSLv3 must be TLS"
    assert str(SettingError("ssl.key.password", None, "must be set")) == "ssl.key.password must be set"


def test_a_provider_is_asked_again_unless_that_is_no_use() -> None:
    assert not ProviderError("it does not answer").is_final
    error = ProviderError("it answers with 404", is_final=True)
    assert (str(error), error.is_final) == ("it answers with 404", True)
