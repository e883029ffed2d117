"""Compiles the few modules whose loops are too slow in Python; an install without a C compiler works the same, slower.

They are those beside which a .pxd of the same name lies, under protocol/.
"""

from pathlib import Path

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    modules = [path.with_suffix(".py") for path in sorted(Path("protocol").rglob("*.pxd"))]
    extensions = cythonize(
        [
            Extension(".".join(path.with_suffix("").parts), [str(path)], depends=[str(path.with_suffix(".pxd"))])
            for path in modules
            if path.exists()
        ],
        build_dir="build/cython",
        language_level=3,
    )
    for extension in extensions:
        extension.optional = True  # said here, because cythonize makes new extensions and forgets it

setup(ext_modules=extensions)
