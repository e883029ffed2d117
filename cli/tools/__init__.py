"""Commands that look into log directories and change nothing there: `dump-log` and `log verify`.

Nothing of this is imported by `serve`.
"""
