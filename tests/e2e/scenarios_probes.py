# SPDX-License-Identifier: BSD-3-Clause
"""The scripts of config/bpftrace on a dataplane with traffic. Their counts must agree with weirctl."""
import contextlib
import os
import re
import signal

import clients
from lab import ROOT, VIP4, VIP6, lines, web
from netns import wait_for
from scenario import scenario
from scenarios_limits import raw_socket, syn, worker_sum

SCRIPTS = os.path.join(ROOT, "config", "bpftrace")
REQUESTS = 40
SPOOFED = "203.0.113.7"
SHORT = {"flow_table": {"flows_per_worker": 65536, "timeout_ms": {"closing": 300}}}


def of_this_lab(lab, text):
    """Returns the script with its probes limited to this lab's processes, because other labs run the same files."""
    ours = " || ".join(f"pid == {lab.programs[name].process.pid}"
                       for name in ("dataplane", "control"))
    return re.sub(r"^(usdt:.*)\n(?:/(.*)/\n)?\{",
                  lambda probe: f"{probe[1]}\n/({ours}) && ({probe[2] or 1})/\n{{", text,
                  flags=re.MULTILINE)


class Script:
    """Runs a script of config/bpftrace on the programs of this lab, until text() is called."""

    def __init__(self, lab, name):
        with open(os.path.join(SCRIPTS, f"{name}.bt"), encoding="utf-8") as file:
            text = file.read()
        for program in ("weir-dataplane", "weir-control"):
            text = text.replace(f"/usr/sbin/{program}", lab.binary(program))
        path = os.path.join(lab.dir, f"{name}.bt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(of_this_lab(lab, text))
        # BEGIN prints this text when all other probes are attached.
        self.program = lab.program(name, lab.lb, "bpftrace", path)
        lab.wait_for_program(name, lambda: "^C ends." in self.program.output(), 60)

    def text(self):
        self.program.signal(signal.SIGINT)
        wait_for("bpftrace to end", lambda: not self.program.alive(), 30)
        return self.program.output()


def totals(text, name):
    """Returns {key: count} of a map, as bpftrace prints it at the end."""
    return {key: int(count) for key, count in
            re.findall(rf"^@{name}\[(.*)\]: (\d+)$", text, re.MULTILINE)}


def histogram_sum(text, name):
    """Returns the number of values in all histograms of a map."""
    return sum(int(count)
               for part in re.findall(rf"^@{name}\[.*\]:.*\n((?:[\[(].*\n?)+)", text, re.MULTILINE)
               for count in re.findall(r"[\])] +(\d+) \|", part))


@contextlib.contextmanager
def raised(lab, counter):
    """Measure how much a counter of all workers increases within the block, and append this
    number to the yielded list."""
    before, result = worker_sum(lab, counter), []
    yield result
    result.append(worker_sum(lab, counter) - before)


@scenario(services=[web(), lines()])
def new_flows_script_agrees_with_weirctl(lab):
    """new-flows.bt counts as many flows of each service and backend as weirctl"""
    script = Script(lab, "new-flows")
    assert clients.curl_batch(lab.client, VIP4, REQUESTS).ok == REQUESTS
    line = clients.Line(lab.client, VIP4)
    wait_for("weirctl to count the flows", lambda: worker_sum(lab, "flow_new") >= REQUESTS + 1)
    services = {each["name"]: each["id"] for each in lab.api("service.show")}
    expected = {f"{services[each['service']]}, {each['id']}": each["new_flows"]
                for each in lab.backends() if each["new_flows"] > 0}
    text = script.text()
    assert totals(text, "total") == expected, (expected, text)
    assert sum(expected.values()) == worker_sum(lab, "flow_new")
    line.close()


@scenario(services=[lines()])
def drops_script_agrees_with_weirctl(lab):
    """drops.bt counts as many drops of each reason as weirctl, and counts the drops of each client"""
    drops = lambda: {name: count for name, count in lab.api("stats.show")["drops"].items() if count}
    script = Script(lab, "drops")
    before = drops()
    with raw_socket(lab.client) as sock:
        for n in range(30):  # flags SYN and FIN
            sock.sendto(syn(SPOOFED, 2000 + n, flags=3), (VIP4, 0))
        for n in range(5):
            sock.sendto(syn(SPOOFED, 3000 + n)[:30], (VIP4, 0))
    wait_for("drops", lambda: drops().get("tcp_flags", 0) >= 30
             and drops().get("tcp_truncated", 0) >= 5)
    after = drops()
    text = script.text()
    expected = {name: count - before.get(name, 0) for name, count in after.items()
                if count > before.get(name, 0)}
    assert totals(text, "total") == expected, (expected, text)
    assert totals(text, "by_client")[SPOOFED] == 35, text


@scenario(services=[web()], config=SHORT)
def flow_lifetimes_script_agrees_with_weirctl(lab):
    """flow-lifetimes.bt shows each ended flow, IPv4 and IPv6, and how it ended"""
    script = Script(lab, "flow-lifetimes")
    for vip in (VIP4, VIP6):
        assert clients.curl_batch(lab.client, vip, REQUESTS).ok == REQUESTS
    ended = lambda: sum(each["completed"] for each in lab.backends())
    wait_for("all flows to leave the table", lambda: worker_sum(lab, "flows") == 0, 20)
    wait_for("weirctl to count the flows", lambda: ended() == 2 * REQUESTS)
    text = script.text()
    assert "@lifetime_ms[completed]:" in text, text
    assert histogram_sum(text, "lifetime_ms") == 2 * REQUESTS, text


@scenario(services=[web()])
def publications_script_agrees_with_weirctl(lab):
    """publications.bt counts the publications of control, and the worker applies each of them"""
    script = Script(lab, "publications")
    published = lambda: lab.api("stats.show")["segment"]["publications"]
    before = published()
    for weight in (50, 60, 70):
        lab.api("weight.set", service="web", backend="web-1", weight=weight)
    wait_for("publications", lambda: published() >= before + 3)
    lab.wait_published()
    count = published() - before
    wait_for("the worker to apply the changes", lambda: lab.api("stats.show")["segment"]["retired_bytes"] == 0)
    text = script.text()
    assert sum(totals(text, "published").values()) == count, (count, text)
    assert histogram_sum(text, "latency_us") == count, (count, text)
