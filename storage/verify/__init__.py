"""A check of log directories that changes nothing: what is wrong in them, and what a start would do about it.

`verifier` goes over directories, `directory` and `partition` over what lies in them, `segment` over every batch, with
`indexes`, `epochs` and `producers` beside it. It reads the layouts by itself: a fault in the code that writes them is
not to be found right by the same code. Called by `barnabas log verify`.
"""
