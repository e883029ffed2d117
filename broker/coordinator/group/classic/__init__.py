"""Classic groups: members join, one of them assigns, all of them sync (JoinGroup, SyncGroup, Heartbeat, LeaveGroup)."""
