"""Compiles the few modules whose loops are too slow in Python; an install without a C compiler works the same, slower.

They are those beside which a .pxd of the same name lies, under protocol/. A .pxd by itself is what they share.
"""

from pathlib import Path

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    declarations = sorted(Path("protocol").rglob("*.pxd"))
    shared = [str(path) for path in declarations if not path.with_suffix(".py").exists()]
    extensions = cythonize(
        [
            Extension(
                ".".join(path.with_suffix("").parts),
                [str(path.with_suffix(".py"))],
                depends=[str(path), *shared],
            )
            for path in declarations
            if str(path) not in shared
        ],
        build_dir="build/cython",
        language_level=3,
    )
    for extension in extensions:
        extension.optional = True  # said here, because cythonize makes new extensions and forgets it

setup(ext_modules=extensions)
