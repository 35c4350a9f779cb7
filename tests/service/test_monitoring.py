"""The dashboard and the alert rules name metrics and labels that the server has."""

import json
import re
import time
from types import SimpleNamespace

import pytest
import yaml
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streamnb import Mailbox
from streamnb.errors import BusyError
from streamnb.mailbox.service.api import api
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.monitor import SECONDS, Monitor
from streamnb.mailbox.service.response import Response

NOT_OURS = {"up"}
METRIC = re.compile(r"\b(streamnb_\w+|up)\b(?:\{([^}]*)\})?")
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? ", re.M)


def expressions(repository):
    folder = repository / "docs" / "monitoring"
    dashboard = json.loads((folder / "grafana.json").read_text())
    rules = yaml.safe_load((folder / "alerts.yml").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
            shown_labels = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            assert set(shown_labels) <= set(re.findall(r"\w+", target["expr"])) | {"listener"}
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


@pytest.fixture
def samples(tmp_path):
    """Return the labels of each sample that a server exports after a message of each kind."""
    with Mailbox(tmp_path / "db", create=True) as box:
        mailboxes, monitor = Mailboxes(box), Monitor()
        monitor.watch_databases(lambda: mailboxes.open_count, lambda: False)
        api(mailboxes, monitor)
        verdict = Response("S", 0, 1.0, "spam", 0.9, [])
        monitor.message("milter", verdict, "rejected", time.monotonic(), b"")
        monitor.message("smtp", BusyError("x"), "unmarked", time.monotonic(), b"")
        monitor.refuse("milter", "spam")
        monitor.opened("smtp")
        monitor.learned("http", "spam", "learned", b"")
        monitor.show_accepting({"smtp": True})
        monitor.watch_file("site", lambda: False)
        text = generate_latest(monitor.registry).decode()
    # A metric of requests has no sample before the first one.
    requests = {
        "streamnb_requests_total": {"what", "status"},
        "streamnb_verdicts_total": {"mark"},
        "streamnb_request_seconds_bucket": {"what", "le"},
    }
    assert all(f"# TYPE {name.removesuffix('_bucket')} " in text for name in requests)
    labels = {name: set(re.findall(r"(\w+)=\"", pairs)) for name, pairs in SAMPLE.findall(text)}
    return labels | requests


def test_each_expression_names_metrics_and_labels_that_exist(repository, samples):
    checked = 0
    for title, expression in expressions(repository):
        metrics = METRIC.findall(expression)
        assert metrics, title
        for name, matchers in metrics:
            if name in NOT_OURS:
                continue
            checked += 1
            grouped = re.findall(r"\bby \(([^)]*)\)", expression)
            labels = set(re.findall(r"(\w+)!?=", matchers))
            labels |= {label.strip() for group in grouped for label in group.split(",")}
            assert name in samples, (title, name)
            assert labels <= samples[name], (title, name)
    assert checked >= 10


def test_no_expression_adds_the_messages_of_two_listeners(repository):
    """A mail can pass a milter first, and LMTP after it."""
    sums = [
        (title, text)
        for title, expression in expressions(repository)
        for text in re.findall(r"\bsum\b.*?\]", expression)
        if "streamnb_messages_total" in text
    ]
    assert len(sums) > 3
    assert [title for title, text in sums if "listener" not in text] == []


def test_the_guide_names_all_metrics_of_the_mail_path(repository, samples):
    guide = (repository / "docs" / "guides" / "monitor.md").read_text()
    metrics = {
        re.sub(r"_(bucket|sum|count|created)$", "", name) for name in samples
        if name.startswith("streamnb_") and not re.search("request|verdicts|_created", name)
    }  # fmt: skip
    assert [name for name in sorted(metrics) if f"`{name}`" not in guide] == []


def test_the_reference_has_exactly_the_metrics_of_the_server(repository):
    folder = repository / "streamnb" / "mailbox" / "service"
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    metrics = set(re.findall(r'"(streamnb_[a-z_]+)"', source))
    reference = (repository / "docs" / "reference" / "metrics.md").read_text()
    documented = re.findall(r"^\| `(streamnb_[a-z_]+?)(?:_total)?` \|", reference, re.M)
    assert sorted(metrics) == sorted(documented)
    assert len(metrics) > 10


def parse_samples(registry, name):
    """Return the samples of a metric in the text format of Prometheus, except creation times."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = [sample for family in families for sample in family.samples]
    pattern = re.compile(f"{name}_(?!created)")
    return sorted((s.name, sorted(s.labels.items()), s.value) for s in samples
                  if pattern.match(s.name))  # fmt: skip


def test_the_metrics_are_those_of_the_library(monkeypatch):
    monitor, registry = Monitor(), CollectorRegistry()
    labels = ["listener", "class", "sure"]
    counter = Counter("streamnb_messages", "", labels, registry=registry)
    histogram = Histogram("streamnb_message_seconds", "", ["listener"],
                          registry=registry, buckets=SECONDS)  # fmt: skip
    bounds = [seconds for bound in SECONDS for seconds in (bound / 2, bound, bound * 1.01)]
    clock = iter(bounds)
    fake_time = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("streamnb.mailbox.service.monitor.time", fake_time)
    for i, seconds in enumerate(bounds):
        label = ("spam", 'a "quoted" class', "back\\slash", "two\nlines")[i % 4]
        listener = ("smtp", "lmtp")[i % 2]
        monitor.message(listener, Response("S", i % 3, 1.0, label, 0.9, []), "marked", 0, b"")
        counter.labels(listener, label, "no" if i % 3 == 2 else "yes").inc()
        histogram.labels(listener).observe(seconds)
    for name in ("streamnb_messages", "streamnb_message_seconds"):
        assert parse_samples(monitor.registry, name) == parse_samples(registry, name) != []
