"""A check of log directories that changes nothing: what is wrong in them, and what a start would do about it.

`verifier` goes over directories, `directory` and `partition` over their contents, `segment` over every batch, with
`indexes`, `epochs` and `producers` beside it. It reads the layouts by itself, so that a fault in the code that writes
them does not hide itself. Called by `barnabas log verify` and the audit of the pipeline.
"""
