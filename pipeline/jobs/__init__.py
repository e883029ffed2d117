"""Applications for spark-submit, one for each command."""
