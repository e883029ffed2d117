"""Compiles what is too slow in Python; an install without a C compiler works the same, slower.

Cython compiles the loops over bytes: the modules beside which a .pxd of the same name lies, under protocol/. (A .pxd by
itself is what they share.) mypyc compiles the path of a request: the modules that broker/compiled.py lists, as one
library. Both take the source that also runs as it is, and what each makes is there as a whole or not at all.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

SUFFIX = EXTENSION_SUFFIXES[0]
LIBRARY = "barnabas__mypyc"
"""What all of mypyc's modules are in; each has an extension module of its name besides, which loads it."""
_LISTS = runpy.run_path("barnabas/broker/compiled.py")
PACKAGES = _LISTS["PACKAGES"]
TYPED = _LISTS["MODULES"]
DECLARED = [
    ".".join(path.with_suffix("").parts)
    for path in sorted(Path("barnabas/protocol").rglob("*.pxd"))
    if path.with_suffix(".py").exists()
]
GROUPS = [{*DECLARED}, {LIBRARY, *TYPED}]
"""Those of each know the others' layout in C: one of them alone cannot be imported."""


FLAGS = [] if os.name == "nt" else ["-O2", "-g0"]
"""What Python was built with (-O3 -g, often) takes the compiler half as long again, and runs no faster."""


def source_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def loop(module: str) -> Extension:
    """What Cython compiles it to, with its source as it is."""
    shared = [
        str(path) for path in Path("barnabas/protocol").rglob("*.pxd") if not path.with_suffix(".py").exists()
    ]
    source = source_of(module)
    depends = [source.removesuffix("py") + "pxd", *shared]
    return Extension(module, [source], depends=depends, extra_compile_args=FLAGS, optional=True)


def cython_extensions() -> list[Extension]:
    """With sources in C; none where there is no Cython."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    return cythonize(list(map(loop, DECLARED)), build_dir="build/cython", language_level=3)


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
        extensions = mypycify(
            [*options, *map(source_of, TYPED)],
            opt_level="2",
            debug_level="0",
            multi_file=True,
            group_name=LIBRARY.removesuffix("__mypyc"),
            target_dir="build/mypyc",
        )
    except (SystemExit, Exception) as error:  # it ends the program when it refuses something
        print(f"mypyc: {error}: nothing of it is compiled", file=sys.stderr)
        return []
    for extension in extensions:  # what another compiler warns of is no reason to do without
        extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
    return extensions


class BuildCompiled(build_ext):
    """Makes the C sources when something is built, not whenever setup.py is asked something, and compiles side by side.

    What has not been made anew is removed: an old library beside a new source would hide it; nor does a part of a group
    stay. And what is beside its source is as old as the moment at which the source was read, so that a
    change that comes while it is compiled is noticed.
    """

    def run(self) -> None:
        started = time.time()
        self._built: set[str] = set()
        made = {extension.name: extension for extension in [*cython_extensions(), *mypyc_extensions()]}
        for extension in self.extensions:
            if extension.name in made:
                for attribute in ("sources", "depends", "include_dirs", "extra_compile_args"):
                    setattr(extension, attribute, getattr(made[extension.name], attribute))
        self.extensions = [extension for extension in self.extensions if extension.name in made]
        in_place = self.inplace or self.editable_mode
        super().run()
        for group in GROUPS:
            if not self._built.issuperset(group):
                self._built.difference_update(group)
        self._remove_others(Path(self.build_lib))
        if in_place:
            for library in self._remove_others(Path()):
                os.utime(library, (started, started))

    def build_extensions(self) -> None:
        compile_anew = self.compiler.compile

        def compile_one(source: str, depends: list[str], output_dir: str, **options: Any) -> list[str]:
            objects = self.compiler.object_filenames([source], output_dir=output_dir)
            if newer_group([source, *depends, __file__], objects[0]):
                compile_anew([source], output_dir=output_dir, **options)
            return objects

        def compile_side_by_side(sources: list[str], **options: Any) -> list[str]:
            made = pool.map(lambda source: compile_one(source, **options), sources)
            return [path for objects in made for path in objects]

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self.compiler.compile = compile_side_by_side
            super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        super().build_extension(ext)
        self._built.add(ext.name)

    def _remove_others(self, root: Path) -> list[Path]:
        """Removes all under `root` that this Python would load and has not been built now; the rest is returned."""
        kept = []
        for pattern in (f"*__mypyc{SUFFIX}", *(f"barnabas/{package}/**/*{SUFFIX}" for package in PACKAGES)):
            for library in root.glob(pattern):
                name = ".".join(library.relative_to(root).parts).removesuffix(SUFFIX)
                if name in self._built:
                    kept.append(library)
                else:
                    library.unlink()
        return kept


setup(
    ext_modules=[
        *map(loop, DECLARED),
        *(Extension(name, [source_of(name)], optional=True) for name in TYPED),
        Extension(LIBRARY, [], optional=True),
    ],
    cmdclass={"build_ext": BuildCompiled},
    options={"build_ext": {"parallel": os.cpu_count(), "build_temp": f"build/objects{Path(SUFFIX).stem}"}},
)
