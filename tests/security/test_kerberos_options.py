"""Krb5LoginModule's options, of a server and of a client."""

from __future__ import annotations

import pytest

from barnabas.security.kerberos_options import (
    KerberosOptions,
    KerberosOptionsError,
    client_options,
    server_options,
)

SERVER = {
    "useKeyTab": "true",
    "storeKey": "True",
    "keyTab": "/k",
    "principal": "kafka/h@R",
    "serviceName": "kafka",
}
CLIENT = {"useKeyTab": "true", "keyTab": "FILE:/k", "principal": "alice@R"}


def test_a_server_has_a_keytab() -> None:
    assert server_options(SERVER, None) == KerberosOptions("kafka", "kafka/h@R", True, "/k")
    without = {key: value for key, value in SERVER.items() if key != "keyTab"}
    assert server_options({**without, "debug": "true", "isInitiator": "false"}, "kafka").keytab is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"useTicketCache": "true"}, "have no useTicketCache"),
        ({"useKeyTab": "false"}, "have useKeyTab=true where they have keyTab"),
        ({"useKeyTab": None, "keyTab": None}, "have useKeyTab=true: a server needs"),
        ({"storeKey": None}, "have storeKey=true"),
        ({"principal": None}, "have one principal"),
        ({"principal": "*"}, "have one principal"),
        ({"ticketCache": "/c"}, "have useTicketCache=true where they have ticketCache"),
        ({"renewTGT": "true"}, "have useTicketCache=true where they have renewTGT"),
        ({"useFirstPass": "true"}, "not have useFirstPass"),
        ({"tryFirstPass": "true"}, "not have tryFirstPass"),
        ({"serviceName": None}, 'have serviceName="kafka", or sasl.kerberos.service.name must be set'),
    ],
)
def test_what_contradicts_is_refused(change: dict[str, str | None], why: str) -> None:
    options = {key: value for key, value in {**SERVER, **change}.items() if value is not None}
    with pytest.raises(KerberosOptionsError) as caught:
        server_options(options, None)
    assert str(caught.value).startswith(why)


def test_the_service_has_one_name() -> None:
    assert server_options(SERVER, "kafka").service_name == "kafka"
    with pytest.raises(KerberosOptionsError, match="which is other, or none; they have kafka"):
        server_options(SERVER, "other")


def test_a_client_has_a_keytab_or_tickets() -> None:
    assert client_options(CLIENT, "kafka") == KerberosOptions("kafka", "alice@R", True, "/k")
    tickets = {"useTicketCache": "true", "ticketCache": "/c", "renewTGT": "true", "doNotPrompt": "true"}
    assert client_options(tickets, "kafka") == KerberosOptions("kafka", None, False, None, True, "/c")
    assert client_options(SERVER, None).principal == "kafka/h@R"  # how a broker logs in to others


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "have useKeyTab=true or useTicketCache=true: a password is not asked for"),
        ({"useKeyTab": "true"}, 'have principal="name@REALM" beside useKeyTab'),
        ({**CLIENT, "principal": "*"}, "name one principal"),
        ({**CLIENT, "isInitiator": "FALSE"}, "not have isInitiator=false"),
    ],
)
def test_what_no_client_can_have(options: dict[str, str], why: str) -> None:
    with pytest.raises(KerberosOptionsError) as caught:
        client_options(options, "kafka")
    assert str(caught.value).startswith(why)
