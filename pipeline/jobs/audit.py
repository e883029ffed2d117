"""`barnabas pipeline audit` for spark-submit, with the same options."""

from barnabas.pipeline.commands.audit import audit

if __name__ == "__main__":
    audit()
