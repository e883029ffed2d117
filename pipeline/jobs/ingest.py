"""`barnabas pipeline ingest` for spark-submit, with the same options."""

from pipeline.commands.ingest import ingest

if __name__ == "__main__":
    ingest()
