"""Compiles what is too slow in Python; an install without a C compiler works the same, slower.

Cython compiles the loops over bytes: the modules beside which a .pxd of the same name lies, under protocol/. (A .pxd by
itself is what they share.) mypyc compiles the path of a request: the modules that broker/compiled.py lists, as one
library, which is there as a whole or not at all. Both take the source that also runs as it is.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

GROUP = "barnabas"
LIBRARY = f"{GROUP}__mypyc"
"""What mypyc calls the library that all of its modules are in; each has an extension module that loads it."""
TYPED = runpy.run_path("broker/compiled.py")["MODULES"]
DECLARED = [
    ".".join(path.with_suffix("").parts)
    for path in sorted(Path("protocol").rglob("*.pxd"))
    if path.with_suffix(".py").exists()
]


def source_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def cython_extensions() -> list[Extension]:
    """With sources in C, each optional by itself."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    shared = [str(path) for path in Path("protocol").rglob("*.pxd") if not path.with_suffix(".py").exists()]
    return cythonize(
        [
            Extension(name, [source_of(name)], depends=[source_of(name).removesuffix("py") + "pxd", *shared])
            for name in DECLARED
        ],
        build_dir="build/cython",
        language_level=3,
    )


def mypyc_extensions() -> list[Extension]:
    """With sources in C; none of them where mypyc is not there or refuses one module."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    options = [  # the same in a checkout, where all libraries are at hand, as where pip builds, without any
        "--config-file=",
        "--no-site-packages",
        "--ignore-missing-imports",
        "--explicit-package-bases",
        "--follow-imports=silent",
    ]
    try:
        return mypycify(
            [*options, *map(source_of, TYPED)],
            opt_level="2",
            debug_level="0",
            multi_file=True,
            group_name=GROUP,
            target_dir="build/mypyc",
        )
    except (SystemExit, Exception) as error:  # it ends the program when it refuses something
        print(f"mypyc: {error}: nothing of it is compiled", file=sys.stderr)
        return []


class BuildCompiled(build_ext):
    """Makes the C sources when something is built, not whenever setup.py is asked something, and compiles side by side."""

    def run(self) -> None:
        made = {extension.name: extension for extension in [*cython_extensions(), *mypyc_extensions()]}
        for extension in self.extensions:
            if extension.name in made:
                vars(extension).update(sources=made[extension.name].sources)
                for attribute in ("include_dirs", "extra_compile_args", "depends", "define_macros"):
                    setattr(extension, attribute, getattr(made[extension.name], attribute))
        self.extensions = [extension for extension in self.extensions if extension.name in made]
        super().run()

    def build_extensions(self) -> None:
        compile_anew = self.compiler.compile

        def compile_one(source: str, depends: list[str], output_dir: str, **options: Any) -> list[str]:
            objects = self.compiler.object_filenames([source], output_dir=output_dir)
            if not newer_group([source, *depends], objects[0]):
                return objects
            return compile_anew([source], output_dir=output_dir, **options)

        def compile_side_by_side(sources: list[str], **options: Any) -> list[str]:
            return [
                made
                for objects in pool.map(lambda source: compile_one(source, **options), sources)
                for made in objects
            ]

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self.compiler.compile = compile_side_by_side
            super().build_extensions()


setup(
    ext_modules=[
        Extension(name, [source_of(name)] if name != LIBRARY else [], optional=True)
        for name in (*DECLARED, LIBRARY, *TYPED)
    ],
    cmdclass={"build_ext": BuildCompiled},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
