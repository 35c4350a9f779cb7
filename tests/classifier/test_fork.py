"""Processes that are forked while other threads use the objects of the package."""

import os
import threading
import traceback

import pytest

import streamnb
from streamnb import locks
from streamnb.features.views import Views
from streamnb.locks import ForkSafeLock

ROW = {"height": 1.5, "weight": 60.0}
# Each kind of object that threads share: how it is made, and a call that changes or uses it.
ENTRANCES = {
    "MultinomialNB": (streamnb.MultinomialNB, lambda it: it.learn_one({"a": 1}, "x")),
    "GaussianNB": (streamnb.GaussianNB, lambda it: it.learn_one(ROW, "x")),
    "AODE": (streamnb.AODE, lambda it: it.learn_one(ROW, "x")),
    "TextClassifier": (streamnb.TextClassifier, lambda it: it.learn_one("a text", "x")),
    "MailClassifier": (streamnb.MailClassifier, lambda it: it.classify(b"Subject: a\n\nb")),
    "Tokenizer": (streamnb.Tokenizer, lambda it: it.count("free offer")),
    "Views": (
        lambda: Views([streamnb.Tokenizer(), streamnb.Tokenizer(ngrams=(2, 2))], mail=False),
        lambda it: it.count("free offer"),
    ),
}

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def exit_status_of(call):
    """The exit status of a forked process that makes a call: 0 if that returns."""
    child = os.fork()
    if not child:
        status = 1
        try:
            call()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def watched(call):
    """Make a call; an alarm ends a process that waits for a lock without end."""

    def call_with_alarm():
        import signal

        signal.alarm(60)
        call()

    return call_with_alarm


@pytest.mark.parametrize("name", ENTRANCES)
def test_a_child_can_use_what_other_threads_use(name):
    make, use = ENTRANCES[name]
    shared = make()
    is_done, is_begun = threading.Event(), threading.Event()

    def use_until_done():
        while not is_done.is_set():
            use(shared)
            is_begun.set()

    threads = [threading.Thread(target=use_until_done) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert is_begun.wait(60)
        assert [exit_status_of(watched(lambda: use(shared))) for _ in range(10)] == [0] * 10
    finally:
        is_done.set()
        for thread in threads:
            thread.join()


def test_a_child_gets_whole_objects(monkeypatch):
    """A fork waits for the end of a call that another thread has begun."""
    lock = ForkSafeLock()
    is_begun, changes = threading.Event(), []

    def change():
        with lock:
            changes.append("first")
            is_begun.set()
            threading.Event().wait(0.2)
            changes.append("second")

    thread = threading.Thread(target=change)
    thread.start()
    assert is_begun.wait(60)

    def check():
        with lock:
            assert changes == ["first", "second"]

    assert exit_status_of(watched(check)) == 0
    thread.join()


def test_threads_that_wait_for_each_other_do_not_stop_a_fork():
    first, second = ForkSafeLock(), ForkSafeLock()
    is_done = threading.Event()

    def use_both():
        while not is_done.is_set():
            with first, second:
                pass
            with second:
                pass

    thread = threading.Thread(target=use_both)
    thread.start()
    try:
        assert exit_status_of(watched(second.acquire)) == 0
    finally:
        is_done.set()
        thread.join()


def test_an_object_locked_too_long_is_refused_in_the_child(monkeypatch):
    monkeypatch.setattr(locks, "MAX_WAIT_S", 0.1)
    model = streamnb.MultinomialNB()
    model.learn_one({"a": 1}, "x")
    is_begun, is_done = threading.Event(), threading.Event()

    def hold():
        with model.lock:
            is_begun.set()
            is_done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_begun.wait(60)

    def use_in_child():
        with pytest.raises(RuntimeError, match="when the process was forked"):
            model.predict_one({"a": 1})
        assert exit_status_of(lambda: None) == 0  # and a child can fork
        assert streamnb.MultinomialNB().predict_one({"a": 1}) is None

    try:
        assert exit_status_of(watched(use_in_child)) == 0
    finally:
        is_done.set()
        thread.join()
    assert model.predict_one({"a": 1}) == "x"


def test_a_child_can_use_what_the_forking_thread_holds():
    lock = ForkSafeLock()
    with lock:
        assert exit_status_of(watched(lock.acquire)) == 0


def test_threads_can_fork_at_the_same_time():
    model = streamnb.TextClassifier()
    statuses = []

    def fork():
        statuses.extend(
            exit_status_of(watched(lambda: model.learn_one("a text", "x"))) for _ in range(5)
        )

    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 15
