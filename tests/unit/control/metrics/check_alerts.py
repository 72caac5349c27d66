#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that alerts and the dashboard use only series of weir-metrics, and that each alert fires under
its condition.

usage: check_alerts.py WEIR_METRICS SOURCE_ROOT

Prometheus accepts unknown names; an alert with an unknown name never fires. Only labels in selectors are
checked; promtool checks by() and on(), with alerts_test.yml.
"""
import json
import os
import re
import shutil
import subprocess
import sys

FAMILY = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w, ]*) \|", re.M)
SELECTOR = re.compile(r"\b((?:weir|node_ipvs)_\w+)(?:\{([^}]*)\})?")
OF_PROMETHEUS = {"job", "instance"}
SKIPPED = 77


def families(program):
    text = subprocess.run([program, "--families"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    known = {}
    for name, kind, labels in FAMILY.findall(text):
        for end in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            known[name + end] = set(labels.split(", "))
    return known


def complaints(known, where, expression):
    for name, matchers in SELECTOR.findall(expression):
        if name not in known:
            yield f"{where}: {name} does not exist"
            continue
        for label in re.findall(r"(\w+)\s*[=!]", matchers):
            if label not in known[name] | OF_PROMETHEUS:
                yield f"{where}: {name} has no label {label}"


def expressions(root):
    with open(root + "/config/grafana/weir.json", encoding="utf-8") as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    with open(root + "/config/prometheus/alerts.yml", encoding="utf-8") as file:
        for alert in file.read().split("- alert: ")[1:]:
            yield alert.split("\n")[0], alert.split("expr:")[1].split("for:")[0]


def tested(root):
    """Returns the alerts that fire in alerts_test.yml, and all alerts."""
    with open(os.path.dirname(__file__) + "/alerts_test.yml", encoding="utf-8") as file:
        fire = set(re.findall(r'\{alertname="(\w+)"\}', file.read()))
    with open(root + "/config/prometheus/alerts.yml", encoding="utf-8") as file:
        return fire, set(re.findall(r"- alert: (\w+)", file.read()))


def main(program, root):
    known = families(program)
    asked = list(expressions(root))
    bad = [line for where, expression in asked for line in complaints(known, where, expression)]
    fire, alerts = tested(root)
    bad += [f"{name}: not in alerts_test.yml" for name in alerts - fire]
    print("\n".join(bad) or f"{len(asked)} expressions, {len(alerts)} alerts")
    if bad or not alerts:
        return 1
    promtool = shutil.which("promtool")
    if promtool is None:
        print("no promtool: the alerts are not evaluated")
        return SKIPPED
    return subprocess.run([promtool, "test", "rules",
                           os.path.dirname(os.path.abspath(__file__)) + "/alerts_test.yml"],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
