"""The arithmetic of SCRAM, by the examples of RFC 7677 and RFC 5802's formulas."""

from __future__ import annotations

from base64 import b64decode, b64encode

from barnabas.security.scram import (
    HASHES,
    client_key,
    hmac_of,
    is_proof,
    proof_of,
    salted_password,
    server_key,
    stored_key,
)

SALTED = salted_password("sha256", b"pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SIGNED = (
    f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={NONCE}"
).encode()
PROOF = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
"""Of RFC 7677, section 3."""


def test_the_example_of_the_rfc() -> None:
    key = client_key("sha256", SALTED)
    assert proof_of("sha256", key, SIGNED) == PROOF
    signature = hmac_of("sha256", server_key("sha256", SALTED), SIGNED)
    assert b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_proof_is_checked_by_the_stored_key() -> None:
    stored = stored_key("sha256", client_key("sha256", SALTED))
    assert is_proof("sha256", stored, SIGNED, PROOF)
    assert not is_proof("sha256", stored, SIGNED + b"x", PROOF)
    assert not is_proof("sha256", stored, SIGNED, PROOF[:-1])
    assert not is_proof("sha256", stored, SIGNED, bytes(32))


def test_the_hashes_of_the_mechanisms() -> None:
    for hash_name in HASHES.values():
        key = client_key(hash_name, SALTED)
        assert is_proof(hash_name, stored_key(hash_name, key), b"signed", proof_of(hash_name, key, b"signed"))
