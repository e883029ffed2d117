import ssl

from barnabas.security.cipher_suites import OPENSSL_NAMES, TLS_1_3, iana_name


def test_openssl_knows_each_suite_by_its_name() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(":".join(OPENSSL_NAMES.values()) + ":@SECLEVEL=0")
    assert {each["name"] for each in context.get_ciphers()} == {*OPENSSL_NAMES.values(), *TLS_1_3}
    assert len(set(OPENSSL_NAMES.values())) == len(OPENSSL_NAMES)


def test_names_of_iana() -> None:
    assert iana_name("ECDHE-RSA-AES128-GCM-SHA256") == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert [iana_name(name) for name in (*TLS_1_3, "OTHER")] == [*TLS_1_3, "OTHER"]
