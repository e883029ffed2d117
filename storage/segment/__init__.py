"""One segment on disk: a .log file with its indexes.

`segment` appends and reads, `index` and `txn_index` are the files beside it, `files` opens, rebuilds and renames them,
`names` is how they are called, `scan` and `batch_pass` walk over batches, `times` searches by time. Knows no log.
"""
