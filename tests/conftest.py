"""Fixtures and options of all tests."""

import os
import re
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

# scikit-learn skips one of its contract checks without this; scipy reads it when imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import pytest
from hypothesis import settings

import streamnb
from streamnb import Mailbox

# By default each property has ten examples, the same ones in every run, and long tests try a part
# of their cases. STREAMNB_TESTS=full (in CI) runs all cases, the same ones in every run, too;
# STREAMNB_TESTS=random draws new examples. There are no deadlines; tests with the marker
# `performance` measure time.
KIND = os.environ.get("STREAMNB_TESTS", "")
FULL = KIND in ("full", "random")
PERFORMANCE = KIND == "performance"
settings.register_profile("quick", deadline=None, max_examples=10, derandomize=True, database=None)
settings.register_profile("full", deadline=None, max_examples=60, derandomize=True, database=None)
settings.register_profile("random", deadline=None)
settings.load_profile(KIND if FULL else "quick")
# Tests that start servers; with this option, a missing program is an error.
SERVERS = os.environ.get("STREAMNB_SERVERS") == "1"
REAL = {
    "dovecot": "Dovecot, Postfix and delivery agents, as root",
    "browser": "Chromium",
    "postgres": "PostgreSQL, as root",
    "prometheus": "promtool of Prometheus",
}
# Tests that take seconds: river's checks of growth; for models of tables, the checks of the lazy
# model and of further datasets; and further cases of slow tests.
LONG_TESTS = re.compile(
    r"check_bounded_memory_growth"
    r"|test_tabular.py::test_river_contract\[(LazyBayesianRules|.*\D[1-9]\d*\]$)"
    r"|LazyBayesianRules\(\)-check_classifiers_train\("
    r"|test_stored_and_seed_inputs_pass\[listeners|test_commands_that_are_marked_run\[(replay|pictures)"
    r"|test_a_line_without_end_is_not_kept\[many"
    r"|test_a_page_that_is_lost_takes_few_rows_with_it\[1\]"
    r"|test_the_ledger_has_correct_places_after_any_operations\[[1-3]\]"
    r"|test_pictures_of_the_commands\[p|test_a_sweep_gives_what_single_runs_give\[feedback[12]"
)

# Whoever runs the tests may ignore Ctrl-C (nohup, some CI runners); what they start must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).parents[1]


def corpora_folder() -> Path:
    """Return the folder of the development corpora: STREAMNB_CORPORA, or the one beside the project."""
    named = os.environ.get("STREAMNB_CORPORA")
    return Path(named) if named else REPOSITORY.parent / "shared" / "corpora"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long or binary bytes by their parameter: compressed files hold the time at which they are made."""
    if isinstance(val, bytes) and not (
        len(val) <= 40 and val.isascii() and val.decode().isprintable()
    ):
        return argname
    return None


@pytest.fixture(autouse=True, scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests away from the database of the user who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.delenv("STREAMNB_DB", raising=False)
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Run a test that ended its process (see `faulthandler_timeout`) once again only."""
    if hasattr(config.option, "maxworkerrestart"):  # pytest-xdist is there
        config.option.maxworkerrestart = "1"


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Return one worker more than processors, which works while the tests of others wait for servers."""
    workers = yield
    return workers + 1


def pytest_report_header() -> str:
    return f"streamnb {streamnb.__version__} from {Path(streamnb.__file__).parent}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if LONG_TESTS.search(item.nodeid):
            item.add_marker(pytest.mark.long)
            if not FULL:
                item.add_marker(pytest.mark.skip(reason="long; STREAMNB_TESTS=full runs it"))
    if not PERFORMANCE:
        skip(items, "performance", "measures time or memory; STREAMNB_TESTS=performance runs it")
    folder = corpora_folder()
    if not folder.is_dir():
        if os.environ.get("STREAMNB_CORPORA"):
            raise pytest.UsageError(f"STREAMNB_CORPORA: no folder {folder}")
        skip(items, "corpora", "the development corpora are not beside the project")
    if not SERVERS:
        for marker, program in REAL.items():
            skip(items, marker, f"starts {program}; STREAMNB_SERVERS=1 runs it")


def skip(items: list[pytest.Item], marker: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(marker):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def full() -> bool:
    """Return whether long tests try all of their cases."""
    return FULL


@pytest.fixture(scope="session")
def corpora() -> Path:
    return corpora_folder()


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def sample(repository: Path) -> Path:
    return repository / "corpora" / "sample"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Mailbox]:
    """Yield an empty mailbox."""
    with Mailbox(tmp_path / "mail.db") as mailbox:
        yield mailbox
