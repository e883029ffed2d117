"""Consumer groups (KIP-848): the coordinator assigns, members are brought there by their heartbeats."""
