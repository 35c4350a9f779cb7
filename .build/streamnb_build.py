"""Build backend: setuptools, with the steps that pyproject.toml cannot express.

It finds numpy's headers, reports a missing C compiler in plain words (there is no slow fallback),
and adds the tests, configurations and sample corpus to the source distribution.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.build_meta import *  # noqa: F403 (a build backend is its hooks)
from setuptools.build_meta import build_editable as setuptools_editable
from setuptools.build_meta import build_wheel as setuptools_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import CCompilerError, ExecError, PlatformError

# setuptools brings distutils, so that comes after it.
# isort: off
from distutils.ccompiler import new_compiler
from distutils.command.build_scripts import build_scripts
from distutils.sysconfig import customize_compiler
# isort: on

PAGES = Path("build/pages")
NO_COMPILER = """
streamnb needs a C compiler to build its modules streamnb._core, and building them failed:
    {error}
Install one and try again: 'apt install gcc python3-dev' on Debian and Ubuntu,
'dnf install gcc python3-devel' on Fedora, 'xcode-select --install' on macOS.
"""


class BuildExt(build_ext):
    """Compile `streamnb._core`, the same arithmetic on every machine."""

    def finalize_options(self) -> None:
        import numpy

        super().finalize_options()
        self.include_dirs.append(numpy.get_include())
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, extension: Extension) -> None:
        if self.compiler.compiler_type != "msvc":
            # No fused multiply-add: results must not depend on the processor.
            extension.extra_compile_args += ["-O3", "-g0", "-ffp-contract=off"]
        try:
            super().build_extension(extension)
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(NO_COMPILER.format(error=error)) from error


def make_pages() -> None:
    """Write man pages and shell completions, which are installed as data files."""
    sys.path.insert(0, str(Path.cwd()))
    import click
    from click.shell_completion import get_completion_class
    from click_man.core import generate_man_page

    from streamnb import __version__
    from streamnb.cli.group import commands

    PAGES.mkdir(parents=True, exist_ok=True)
    whole = click.Context(commands, info_name="streamnb")
    named = [(name, commands.get_command(whole, name)) for name in commands.list_commands(whole)]
    commands.commands.update(named)
    for _, command in named:
        command.short_help = command.get_short_help_str(200)
    contexts = [click.Context(command, info_name=name, parent=whole) for name, command in named]
    for ctx in (whole, *contexts):
        ctx.command.help = (ctx.command.help or "").replace("\b\n", "")
        page = generate_man_page(ctx, version=__version__, date=f"streamnb {__version__}")
        (PAGES / f"{ctx.command_path.replace(' ', '-')}.1").write_text(page)
    for shell, name in (("bash", "streamnb"), ("zsh", "_streamnb"), ("fish", "streamnb.fish")):
        completion = get_completion_class(shell)(commands, {}, "streamnb", "_STREAMNB_COMPLETE")
        (PAGES / name).write_text(completion.source_template % completion.source_vars())


def build_wheel(*args: Any, **kwargs: Any) -> str:
    """Build the wheel with man pages and completions made from the commands."""
    make_pages()
    return setuptools_wheel(*args, **kwargs)


def build_editable(*args: Any, **kwargs: Any) -> str:
    """Build the editable wheel with the same pages as `build_wheel`."""
    make_pages()
    return setuptools_editable(*args, **kwargs)


class BuildScripts(build_scripts):
    """Compile the programs in C."""

    def copy_scripts(self) -> tuple[list[str], list[str]]:
        compiler = new_compiler()
        customize_compiler(compiler)
        programs = []
        try:
            for source in self.scripts:
                # An editable wheel installs `build_dir`, so object files go elsewhere.
                objects = compiler.compile([source], self.get_finalized_command("build").build_temp)
                name = f"{self.build_dir}/{Path(source).stem}"
                flags = shlex.split(os.environ.get("LDFLAGS", ""))
                compiler.link_executable(objects, name, extra_postargs=flags)
                programs.append(name)
        except (CCompilerError, ExecError, PlatformError) as error:
            raise SystemExit(NO_COMPILER.format(error=error)) from error
        return programs, programs


class Sdist(sdist):
    """A source distribution holds what a clone holds."""

    def make_distribution(self) -> None:
        for folder in (".build", "configs", "corpora", "docs", "tests"):
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    self.filelist.append(str(path))
        self.filelist.extend(["CHANGELOG.md", "mkdocs.yml"])
        super().make_distribution()
