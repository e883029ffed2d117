"""`barnabas pipeline demo` for spark-submit, with the same options."""

from barnabas.pipeline.commands.demo import demo

if __name__ == "__main__":
    demo()
