"""Compiles the path of a request (mypyc) and the loops over records (Cython) from the source that also runs as Python.

Where that fails nothing is compiled, and the installation works. BARNABAS_INTERPRETED=1 does not try.
"""

from __future__ import annotations

import os
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

SUFFIX = EXTENSION_SUFFIXES[0]
COMPILED = runpy.run_path("barnabas/broker/compiled.py")
BUILDS = {"build", "build_ext", "bdist_wheel", "develop", "editable_wheel", "install"}
IS_BUILD = not BUILDS.isdisjoint(sys.argv)
RECORD = COMPILED["record"](".") if IS_BUILD else ""  # before the compilers read the sources


def extensions() -> list[Extension]:
    """All that is compiled, in C; none where one of the compilers is missing or refuses a module."""
    if os.environ.get("BARNABAS_INTERPRETED") or not IS_BUILD:
        return []
    try:
        from Cython.Build import cythonize
        from mypyc.build import mypycify

        loops = [
            Extension(name, [path], extra_compile_args=["-O2", "-g0"])
            for name, path in COMPILED["loops"](".")
        ]
        typed = mypycify(
            [
                *("--config-file=", "--no-site-packages", "--ignore-missing-imports"),
                *("--explicit-package-bases", "--follow-imports=silent"),
                *(f"{module.replace('.', '/')}.py" for module in COMPILED["MODULES"]),
            ],
            opt_level="2",
            debug_level="0",
            multi_file=True,
            group_name="barnabas",
            target_dir="build/mypyc",
        )
        for extension in typed:  # a warning of a compiler that mypyc does not know is no error
            extension.extra_compile_args = [
                flag for flag in extension.extra_compile_args if flag != "-Werror"
            ]
        return [*cythonize(loops, build_dir="build/cython", language_level=3), *typed]
    except (SystemExit, Exception) as error:  # mypyc ends the program when it refuses something
        print(f"Nothing is compiled, all runs as Python: {error!r}", file=sys.stderr)
        return []


class Build(build_ext):
    """All or nothing: the modules know each other's layout in C. A library that is not rebuilt does not stay.

    They are built in a folder of their own; those in the checkout are replaced when all are there.
    """

    def run(self) -> None:
        in_place = self.inplace or self.editable_mode
        try:
            super().run()
        except Exception as error:
            print(f"Nothing is compiled, all runs as Python: {error}", file=sys.stderr)
            self.extensions = []
            COMPILED["remove_libraries"](self.build_lib)
        if in_place and not self.extensions:
            COMPILED["remove_libraries"](".")

    def copy_extensions_to_source(self) -> None:
        names = [
            self.get_ext_filename(self.get_ext_fullname(extension.name)) for extension in self.extensions
        ]
        COMPILED["put_in_place"](self.build_lib, names, ".", RECORD)

    def build_extensions(self) -> None:
        compile_in_turn = self.compiler.compile

        def compile_one(source: str, depends: list[str], output_dir: str, **options: Any) -> list[str]:
            objects = self.compiler.object_filenames([source], output_dir=output_dir)
            if newer_group([source, *depends], objects[0]):
                compile_in_turn([source], output_dir=output_dir, **options)
            return objects

        def compile_side_by_side(sources: list[str], **options: Any) -> list[str]:
            return [
                path
                for made in pool.map(lambda source: compile_one(source, **options), sources)
                for path in made
            ]

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self.compiler.compile = compile_side_by_side
            super().build_extensions()


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": Build},
    options={"build_ext": {"parallel": os.cpu_count(), "build_temp": f"build/objects{Path(SUFFIX).stem}"}},
)
