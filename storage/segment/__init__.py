"""One segment on disk: a .log file with its indexes.

`segment` appends, reads, opens, rebuilds and renames; `index` and `txn_index` are the files beside the .log, `names`
their names; `scan`, `batch_pass` and `batch_reading` walk over batches, `times` searches by time, `open_segments`
bounds the number of open files. Knows no log.
"""
