"""`barnabas pipeline ingest` for spark-submit, with the same options."""

from barnabas.pipeline.commands.ingest import ingest

if __name__ == "__main__":
    ingest()
