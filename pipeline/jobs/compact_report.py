"""`barnabas pipeline compact-report` for spark-submit, with the same options."""

from barnabas.pipeline.commands.compact_report import compact_report

if __name__ == "__main__":
    compact_report()
