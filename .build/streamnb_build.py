"""Build backend: setuptools, plus what pyproject.toml cannot say.

It finds numpy's headers, says plainly that a C compiler is missing (there is no slow fallback),
and puts the tests, configurations and sample corpus into the source distribution.
"""

# ruff: isort: skip_file (setuptools must come before distutils, which it brings)
from distutils.ccompiler import new_compiler
from distutils.command.build_scripts import build_scripts
from distutils.sysconfig import customize_compiler
from pathlib import Path

from setuptools import Extension
from setuptools.build_meta import *  # noqa: F403 (a build backend is its hooks)
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CCompilerError, ExecError, PlatformError

NO_COMPILER = """
streamnb needs a C compiler to build its module streamnb._core.core, and building it failed:
    {error}
Install one and try again: 'apt install gcc python3-dev' on Debian and Ubuntu,
'dnf install gcc python3-devel' on Fedora, 'xcode-select --install' on macOS.
"""


class BuildExt(build_ext):
    """Compile `streamnb._core.core`, the same arithmetic on every machine."""

    def finalize_options(self) -> None:
        import numpy

        super().finalize_options()
        self.include_dirs.append(numpy.get_include())

    def build_extension(self, extension: Extension) -> None:
        if self.compiler.compiler_type != "msvc":
            # No fused multiply-add: results must not depend on the processor.
            extension.extra_compile_args += ["-O3", "-g0", "-ffp-contract=off"]
        try:
            super().build_extension(extension)
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(NO_COMPILER.format(error=error)) from error


class BuildScripts(build_scripts):
    """Compile the programs in C."""

    def copy_scripts(self) -> tuple[list[str], list[str]]:
        compiler = new_compiler()
        customize_compiler(compiler)
        made = []
        try:
            for source in self.scripts:
                objects = compiler.compile([source], f"{self.build_dir}.objects")
                name = f"{self.build_dir}/{Path(source).stem}"
                compiler.link_executable(objects, name)
                made.append(name)
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(NO_COMPILER.format(error=error)) from error
        return made, made


class Sdist(sdist):
    """A source distribution holds what a clone holds."""

    def make_distribution(self) -> None:
        for folder in (".build", "configs", "corpora", "docs", "tests"):
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    self.filelist.append(str(path))
        self.filelist.extend(["CHANGELOG.md", "mkdocs.yml"])
        super().make_distribution()
