"""Consumer groups, without a disk or a loop."""
