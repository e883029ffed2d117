"""`barnabas pipeline` for spark-submit: the command and its options follow the file.

The file is alone in its directory, since Python looks there first for every module.
"""

from barnabas.pipeline.cli import pipeline

if __name__ == "__main__":
    pipeline()
