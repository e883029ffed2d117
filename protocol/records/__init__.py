"""Record batches and message sets: what a log is made of, in memory, on the wire and on disk alike."""
