"""Prometheus evaluates the alert rules and the dashboard with the metrics of a server."""

import json
import re
import subprocess
import time

import pytest
import yaml
from prometheus_client import generate_latest

from streamnb import Mailbox
from streamnb.errors import BusyError
from streamnb.mailbox.service.api import api
from streamnb.mailbox.service.mailboxes import Mailboxes, NoCommonVerdictError, NoMailboxError
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.response import Response

pytestmark = pytest.mark.prometheus
SAMPLE = re.compile(r"^(streamnb_\w+(?:\{.*\})?) (\S+)$", re.M)
STEP = "5m"  # between two scrapes; each counter grows by its value in a step
SURE, UNSURE = Response("S", 0, 3.0, "spam", 0.95, []), Response("U", 2, 0.1, "spam", 0.52, [])


def judge(verdict, times=9, listener="smtp", seconds=0.0):
    """Return an event: messages that a listener brings, and a verdict or an error for each."""

    def happen(monitor):
        for _ in range(times):
            monitor.message(listener, verdict, "marked", time.monotonic() - seconds, b"")

    return happen


def refuse(cause, times, listener="milter"):
    """Return an event: refusals of a listener."""
    return lambda monitor: [monitor.refuse(listener, cause) for _ in range(times)]


def accept(is_accepting):
    """Return an event: a listener accepts connections, or lets them wait."""
    return lambda monitor: monitor.show_accepting({"smtp": is_accepting})


def use_file(is_stale):
    """Return an event: a file that can change, and whether its earlier content is used."""
    return lambda monitor: monitor.watch_file("site.snb", lambda: is_stale)


def break_database(monitor):
    """An event: the database is damaged. `input_series` looks for it."""


HEALTHY = (
    judge(SURE), judge(NoCommonVerdictError("x")), judge(UNSURE, 1), refuse("spam", 1),
    accept(True), use_file(False),
)  # fmt: skip
EVENTS = {
    "StreamnbAcceptsNothing": (accept(False),),
    "StreamnbUsesOldFile": (use_file(True),),
    "StreamnbDatabaseFault": (break_database,),
    "StreamnbPassesMailUnmarked": (judge(BusyError("x"), 1),),
    "StreamnbNoSiteModel": (judge(NoMailboxError("x"), 1),),
    "StreamnbNextHopFails": (refuse("next_hop_4xx", 40, "smtp"),),
    "StreamnbSlow": (judge(SURE, 3, seconds=5),),
    "StreamnbRefusesManyMessages": (judge(SURE, 20, "milter"), refuse("spam", 19)),
    "StreamnbUnsure": (judge(UNSURE, 11),),
}


@pytest.fixture
def input_series(tmp_path):
    """Return a function: the series of a server in which events happen in each step."""

    def make(*events, up=1):
        with Mailbox(tmp_path / "mail.db", create=True) as box:
            mailboxes, monitor = Mailboxes(box), Monitor()
            monitor.watch_databases(lambda: mailboxes.open_count, lambda: break_database in events)
            api(mailboxes, monitor)
            monitor.opened("smtp")
            for event in events:
                event(monitor)
            text = generate_latest(monitor.registry).decode()
        series = [{"series": 'up{job="streamnb"}', "values": f"{up}x800"}]
        for name, value in SAMPLE.findall(text):
            is_gauge = re.match(
                "streamnb_(connections|databases|database_fault|accepting|stale_files)", name
            )
            growth = f"{float(value):f}x800" if is_gauge else f"0+{float(value):f}x800"
            series.append({"series": name, "values": growth})
        return series

    return make


@pytest.fixture
def run_promtool(repository, tmp_path):
    """Return a function: run expressions beside series, and expect values by labels."""

    def run(series, expectations):
        tests = [{"expr": expression, "eval_time": "60h", "exp_samples": samples}
                 for expression, samples in expectations]  # fmt: skip
        rules = repository / "docs" / "monitoring" / "alerts.yml"
        document = {
            "rule_files": [str(rules)],
            "evaluation_interval": STEP,
            "tests": [{"interval": STEP, "input_series": series, "promql_expr_test": tests}],
        }
        path = tmp_path / "rules_test.yml"
        path.write_text(yaml.safe_dump(document))
        done = subprocess.run(
            ["promtool", "test", "rules", path], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def expect_alerts(*names):
    expression = 'count by (alertname) (ALERTS{alertstate="firing"})'
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]
    return [(expression, samples)]


def test_a_healthy_server_fires_no_alert(input_series, run_promtool):
    run_promtool(input_series(*HEALTHY), expect_alerts())


def test_a_server_that_is_away_fires_an_alert(input_series, run_promtool):
    run_promtool(input_series(up=0), expect_alerts("StreamnbDown"))


@pytest.mark.parametrize("alert", EVENTS)
def test_each_fault_fires_its_alert_alone(input_series, run_promtool, alert):
    run_promtool(input_series(*HEALTHY, *EVENTS[alert]), expect_alerts(alert))


def test_each_alert_has_a_case(repository):
    rules = yaml.safe_load((repository / "docs" / "monitoring" / "alerts.yml").read_text())
    names = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert names == {*EVENTS, "StreamnbDown"}


def panel_expressions(repository):
    """Yield the title and the expression of each target of the dashboard."""
    dashboard = json.loads((repository / "docs" / "monitoring" / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "15m")


def test_each_panel_of_mail_has_data(repository, input_series, run_promtool):
    expectations = [
        (f"count({expression}) > bool 0", [{"labels": "{}", "value": 1}])
        for title, expression in panel_expressions(repository)
        if title != "Requests by HTTP"
    ]
    assert len(expectations) >= 8
    run_promtool(input_series(*HEALTHY), expectations)


def test_the_share_of_unsure_verdicts_is_zero_before_the_first(
    repository, input_series, run_promtool
):
    expression = dict(panel_expressions(repository))["Share of unsure verdicts"]
    run_promtool(
        input_series(judge(SURE)), [(expression, [{"labels": '{listener="smtp"}', "value": 0}])]
    )


def test_the_guide_has_a_configuration_of_prometheus(repository, tmp_path):
    guide = (repository / "docs" / "guides" / "monitor.md").read_text()
    configuration = re.search(r"<!-- prometheus -->\n```yaml\n(.*?)```", guide, re.S)[1]
    path = tmp_path / "prometheus.yml"
    path.write_text(configuration)
    command = ["promtool", "check", "config", "--syntax-only", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
