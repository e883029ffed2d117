"""What the cluster knows: the metadata log, the image that is its replay, and the levels of its formats."""
