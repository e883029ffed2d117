"""Compiles the few modules whose loops are too slow in Python; an install without a C compiler works the same, slower.

They are those beside which a .pxd lies, under protocol/records.
"""

from pathlib import Path

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    declarations = sorted(Path("protocol/records").glob("*.pxd"))
    extensions = cythonize(
        [
            Extension(f"protocol.records.{path.stem}", [str(path.with_suffix(".py"))], depends=[str(path)])
            for path in declarations
        ],
        build_dir="build/cython",
        language_level=3,
    )
    for extension in extensions:
        extension.optional = True  # said here, because cythonize makes new extensions and forgets it

setup(ext_modules=extensions)
