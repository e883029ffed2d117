"""Commands that read log directories and never write to them: `dump-log` and `log verify`; `serve` imports none."""
