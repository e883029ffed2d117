"""`barnabas pipeline export` for spark-submit, with the same options."""

from barnabas.pipeline.commands.export import export

if __name__ == "__main__":
    export()
