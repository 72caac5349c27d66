# SPDX-License-Identifier: BSD-3-Clause
"""A real Prometheus on the balancer scrapes weir-metrics, and evaluates the alert rules and the
queries of the dashboard."""
import http.client
import json
import os
import re
import urllib.parse

import clients
from lab import BACKENDS, ROOT, VIP4, echo, web
from netns import wait_for
from scenario import scenario

PORT = 9090
ALERTS = os.path.join(ROOT, "config", "prometheus", "alerts.yml")
DASHBOARD = os.path.join(ROOT, "config", "grafana", "weir.json")
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ["{alerts}"]
scrape_configs:
  - job_name: weir
    static_configs: [{{targets: ["127.0.0.1:9479"]}}]
"""


def start_prometheus(lab):
    path = os.path.join(lab.dir, "prometheus.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(alerts=ALERTS))
    lab.program("prometheus", lab.lb, "prometheus", f"--config.file={path}",
                f"--storage.tsdb.path={lab.dir}/prometheus",
                f"--web.listen-address=127.0.0.1:{PORT}")
    lab.wait_for_program("prometheus", lambda: ask(lab, "status/runtimeinfo"), 60)


def ask(lab, what, **arguments):
    with lab.lb.inside():
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
        connection.connect()
    connection.request("GET", f"/api/v1/{what}?{urllib.parse.urlencode(arguments)}")
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    assert reply.status == 200, text  # another status: not ready yet
    answer = json.loads(text)
    assert answer["status"] == "success", answer
    return answer["data"]


def query(lab, expression):
    """Returns [(labels, number), ...]."""
    return [(row["metric"], float(row["value"][1]))
            for row in ask(lab, "query", query=expression)["result"]]


def one(lab, expression):
    found = query(lab, expression)
    assert len(found) == 1, f"{expression}: {found}"
    return found[0][1]


def logged(lab, number):
    """Returns the number of requests that the nginx of a backend has logged."""
    with open(f"{lab.dir}/nginx-{number}/counted.log", encoding="utf-8") as file:
        return file.read().count('"GET /counted ')


def check_scrape(lab):
    target = ask(lab, "targets")["activeTargets"][0]
    assert (target["health"], target["lastError"]) == ("up", ""), target
    assert one(lab, "scrape_samples_post_metric_relabeling") > 300
    kinds = {name: entry[0]["type"] for name, entry in ask(lab, "metadata").items()}
    assert kinds["weir_service_open_flows"] == "gauge"
    assert "counter" in (kinds.get("weir_service_new_flows"), kinds.get("weir_service_new_flows_total"))


def check_rules(lab):
    """Check that all alert rules can be evaluated."""
    rules = [rule for group in ask(lab, "rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 10
    for rule in rules:
        assert rule["health"] == "ok", rule


def check_dashboard(lab):
    """Check that each query of the dashboard returns data."""
    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in (("$__rate_interval", "1m"), ("$instance", ".*"),
                                ("$service", ".*")):
                expression = expression.replace(name, value)
            assert "$" not in expression, expression
            assert query(lab, expression), f"{panel['title']}: nothing for {expression}"
    for variable in dashboard["templating"]["list"][1:]:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)",
                                       variable["query"]["query"]).groups()
        found = query(lab, selector.replace("$instance", ".*"))
        assert found and all(label in labels for labels, _ in found), variable


def alerts(lab):
    """Returns {name of a pending or firing alert: its labels}."""
    return {alert["labels"]["alertname"]: alert["labels"] for alert in ask(lab, "alerts")["alerts"]}


@scenario(services=[web(), echo()], pair=True, seconds=300)
def prometheus_agrees_with_curl_and_nginx(lab):
    """Prometheus counts the flows of 200 requests; rules and dashboard queries work; alerts fire"""
    lab.start_metrics()
    start_prometheus(lab)
    flows = 'weir_service_new_flows_total{service="web"}'
    wait_for("a scrape", lambda: query(lab, flows), 30, 0.2)
    before = one(lab, flows)
    result = clients.curl_batch(lab.client, VIP4, 200, "/counted")
    assert result.ok == 200, result.errors[:5]
    wait_for("the flows", lambda: one(lab, flows) - before == 200, 30, 0.2)
    for number, name in enumerate(BACKENDS, 1):
        assert one(lab, f'weir_backend_new_flows_total{{service="web",backend="{name}"}}') \
            == result.served[name] == logged(lab, number)
    wait_for("a rate", lambda: one(lab, f"rate({flows}[1m])") > 0, 30, 0.2)
    check_scrape(lab)
    lab.weirctl("weight", "set", "web/web-1", "50")  # causes a publication and a grace period, which panels show
    wait_for("data in each panel", lambda: check_dashboard(lab) or True, 60, 0.5)
    check_rules(lab)
    assert alerts(lab) == {}
    lab.kill_backend(3)
    wait_for("the alert", lambda: alerts(lab)["WeirBackendRefusing"]["backend"] == "web-3"
             if "WeirBackendRefusing" in alerts(lab) else False, 30, 0.2)
    lab.programs["control"].kill()
    wait_for("the alert", lambda: "WeirControlDown" in alerts(lab), 60, 0.2)
