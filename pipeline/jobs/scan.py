"""`barnabas pipeline scan` for spark-submit, with the same options."""

from barnabas.pipeline.commands.scan import scan

if __name__ == "__main__":
    scan()
