"""Compiles the one module whose loop is too slow in Python; an install without a C compiler works the same, slower."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    record = Extension(
        "protocol.records.record", ["protocol/records/record.py"], depends=["protocol/records/record.pxd"]
    )
    extensions = cythonize([record], build_dir="build/cython", language_level=3)
    for extension in extensions:
        extension.optional = True  # said here, because cythonize makes new extensions and forgets it

setup(ext_modules=extensions)
