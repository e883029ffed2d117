"""UnenforcedNotices: one warning for each kind."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.unenforced import ACLS, CREDENTIALS, UnenforcedNotices
from barnabas.protocol.messages.cluster_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.schema import Message

ACL_ID = b"an id of an acl."


@pytest.mark.parametrize(
    ("record", "notice"),
    [
        (UserScramCredentialRecord(name="alice", mechanism=1), CREDENTIALS),
        (AccessControlEntryRecord(id=ACL_ID), ACLS),
    ],
)
def test_each_notice_is_logged_once(record: Message, notice: str, caplog: pytest.LogCaptureFixture) -> None:
    notices = UnenforcedNotices()
    image, delta = replayed(MetadataImage.empty(), [record])
    notices.apply(image, delta)
    notices.apply(*replayed(image, [record]))
    assert caplog.messages == [notice]


def test_notices_for_a_directory_are_logged_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    image, _ = replayed(MetadataImage.empty(), [AccessControlEntryRecord(id=ACL_ID)])
    UnenforcedNotices().apply(image, MetadataDelta.everything(image))
    assert caplog.messages == [ACLS]


def test_without_a_cause_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    notices = UnenforcedNotices()
    image, _ = replayed(MetadataImage.empty(), [AccessControlEntryRecord(id=ACL_ID)])
    notices.apply(*replayed(image, [RemoveAccessControlEntryRecord(id=ACL_ID)]))
    notices.apply(MetadataImage.empty(), MetadataDelta.everything(MetadataImage.empty()))
    assert caplog.messages == []
