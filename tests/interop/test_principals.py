"""A class of the operator's own names the clients of a broker, and ACLs follow the names that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.support.broker_process import BrokerDidNotStartError, BrokerProcess
from tests.support.ports import held_ports
from tests.support.sasl import listener_settings, plain_entry

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 30.0
CODE = """
class Departments:
    def build(self, context):
        if context.authorization_id == "mallory":
            raise LookupError("has left")
        department, _, _ = (context.authorization_id or "none").partition("-")
        return "Department", department
"""


def broker(directory: Path, named: str = "python:departments_of_a_test:Departments") -> BrokerProcess:
    (directory / "departments_of_a_test.py").write_text(CODE)
    made = BrokerProcess(directory / "data")
    made.environment["PYTHONPATH"] = str(directory)
    made.overrides |= {
        "listeners": f"SASL://127.0.0.1:{made.port},PLAINTEXT://127.0.0.1:{held_ports(1)[0]}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "Department:ops",
        "principal.builder.class": named,
        **listener_settings("SASL", {"PLAIN": plain_entry(**{"ops-1": "a", "sales-1": "b", "mallory": "c"})}),
    }
    return made


def admin(port: int, user: str, password: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }
    )


def test_acls_follow_the_names_that_it_makes(tmp_path: Path) -> None:
    home = broker(tmp_path).start()
    try:
        ops, sales, mallory = (
            admin(home.port, user, password)
            for user, password in (("ops-1", "a"), ("sales-1", "b"), ("mallory", "c"))
        )
        ops.create_topics([NewTopic("t", 1)])["t"].result(LIMIT_S)
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            sales.create_topics([NewTopic("u", 1)])["u"].result(LIMIT_S)
        with pytest.raises(KafkaException):
            mallory.list_topics(timeout=2)
        assert "user mallory: principal.builder.class has failed with LookupError: has left" in home.output
        assert home.stop() == home.clean_status
    finally:
        home.kill()


def test_a_class_that_is_not_there_refuses_the_start(tmp_path: Path) -> None:
    with pytest.raises(BrokerDidNotStartError, match=r"principal\.builder\.class=org\.example\.Own must be"):
        broker(tmp_path, "org.example.Own").start()
