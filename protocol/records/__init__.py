"""Record batches and message sets: the contents of a log, in memory, on the wire and on disk alike.

`batch` is a view of one batch (format v2), `record` the loop over its records, `legacy` the formats before; `entries`
walks over both. `builder` writes batches, `scanning`, `searching`, `cleaning` and `columns` are loops that Cython
compiles, `compression` the codecs. `layout` has the positions and flags, and no other module repeats them.
"""
