#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests what an administrator does with the packages, on separate Debian machines.

usage: check.py newcomer|upgrade --base ROOT --folder FOLDER --packages FOLDER
           [--same FOLDER] [--other FOLDER]

newcomer  runs the commands of README.md on a minimal system, up to a working balancer
upgrade   upgrades to a version with the same segment layout (--same) and back, and to a version with
          another layout (--other) and back, while a client makes requests; removes the packages

Each machine is a container in which systemd runs the unchanged units. The client and the servers
are in separate namespaces. The last line is "<n> passed, <n> failed".
"""
import argparse
import glob
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback

from machine import Machine, Network, sh, wait_for
from browser import Browser

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BALANCER, CLIENT = "10.0.0.2", "10.0.0.5"
METRICS = "127.0.0.1:9479"
UNITS = ("weir-dataplane", "weir-control", "weir-metrics")
WAIT_S = 60
CROWD = 60  # number of concurrent clients, many more than the accept queue of a server can hold


def readme():
    with open(SOURCE + "/README.md", encoding="utf-8") as file:
        return file.read()


def first_configuration():
    """Returns the configuration in the README that a new user copies."""
    return re.search(r"^## A first configuration.*?^```json\n(.*?)^```", readme(), re.M | re.S)[1]


def three_commands():
    block = re.search(r"^### From packages.*?^```sh\n(.*?)^```", readme(), re.M | re.S)[1]
    commands = [re.sub(r" +#.*", "", line) for line in block.splitlines() if line.strip()]
    if len(commands) != 3:
        raise AssertionError(f"the README has {len(commands)} commands from packages: {commands}")
    return commands


class Requests(threading.Thread):
    """A client that makes requests one after the other, and counts failures."""

    def __init__(self, client, address):
        super().__init__(daemon=True)
        self.client, self.address = client, address
        self.good, self.bad, self.ends = 0, [], False
        self.start()

    def run(self):
        while not self.ends:
            why = request(self.client, self.address)
            if why:
                self.bad.append(why)
            else:
                self.good += 1

    def expect_more(self, text, failures=0):
        """Wait for a hundred more successful requests. failures: maximum number of failed requests
        so far."""
        goal = self.good + 100
        wait_for(f"requests {text}", lambda: self.good >= goal, WAIT_S)
        if len(self.bad) > failures:
            raise AssertionError(f"{text}: {len(self.bad)} requests failed: {self.bad[:3]}")

    def stop(self):
        self.ends = True
        self.join()


def request(client, address, timeout=5):
    """Make a request. Returns None, or the reason why it failed."""
    with client.inside():
        done = subprocess.run(["curl", "-sS", "-m", str(timeout), "-o", "/dev/null", "-f", f"http://{address}/"],
                              text=True, check=False, capture_output=True)
    return None if done.returncode == 0 else done.stderr.strip()


class Lab:
    def __init__(self, args):
        self.args = args
        self.log = args.folder + "/machines.log"
        self.config = json.loads(first_configuration())
        service = self.config["services"][0]
        self.vip = service["binds"][0]["address"]
        self.network = Network()
        self.servers, self.machines, self.backends = [], [], []
        try:
            self.client = self.network.host("client")
            self.network.attach(self.client, CLIENT + "/24")
            self.client.ip("route", "add", self.vip, "via", BALANCER)
            for backend in service["backends"]:
                self.backends.append(self.backend(backend))
            self.balancer = self.machine("lb", BALANCER)
        except BaseException:
            self.close()
            raise

    def machine(self, name, address):
        machine = Machine(name, self.args.base, self.args.folder, self.log)
        self.machines.append(machine)
        self.network.attach(machine.net, address + "/24")
        return machine

    def backend(self, backend):
        """Create a machine with an HTTP server. The server process runs on the host of the test."""
        machine = self.machine(backend["name"].replace("-", ""), backend["address"])
        machine.net.ip("address", "add", self.vip + "/32", "dev", "lo")
        pages = f"{self.args.folder}/pages"
        os.makedirs(pages, exist_ok=True)
        for name in ("index.html", "healthz"):
            with open(f"{pages}/{name}", "w", encoding="ascii") as file:
                file.write("hello\n")
        with machine.net.inside():
            self.servers.append(subprocess.Popen(
                [sys.executable, "-m", "http.server", "--directory", pages, "80"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return machine

    def start_backends(self):
        """Start the decapsulation unit on each server."""
        for machine in self.backends:
            machine.copy(*packages(self.args.packages, "weir-agent"))
            machine.in_chroot("apt-get -q update && apt-get -q -y install ./weir-agent_*.deb")
            with open(machine.root + "/etc/weir/decap.env", "w", encoding="ascii") as file:
                file.write(f"INTERFACE=eth1\nOPTIONS=--from {BALANCER}\n")
            machine.boot()
            machine.run("systemctl enable --now weir-decap")
            expect_sandboxed(machine, "weir-decap")

    def configure(self, **keys):
        """Write the configuration of the README, with these keys of the service changed."""
        config = json.loads(first_configuration())
        config["services"][0].update(keys)
        with open(self.balancer.root + "/etc/weir/weir.json", "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)

    def show_journals(self):
        for machine in self.machines:
            if machine.leader is not None:
                said = machine.run("journalctl --no-pager -o cat -u 'weir-*' | tail -n 40", status=None)
                print(f"--- journal of {machine.name}\n{said}", flush=True)

    def close(self):
        for server in self.servers:
            server.kill()
            server.wait()
        for machine in self.machines:
            machine.close()
        self.network.close()


def packages(folder, *names):
    found = [path for name in names for path in glob.glob(f"{folder}/{name}_*.deb")]
    if len(found) != len(names):
        raise SystemExit(f"{folder} has not one package of each of {', '.join(names)}")
    return found


def expect(what, found, wanted):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


def expect_sandboxed(machine, unit):
    """Check that the unit is running, and has notified systemd that it is ready."""
    expect(f"{unit}: state", machine.property(unit, "ActiveState"), "active")
    expect(f"{unit}: NoNewPrivileges", machine.property(unit, "NoNewPrivileges"), "yes")
    with open(f"/proc/{machine.leader}/root/proc/{machine.pid(unit)}/status",
              encoding="ascii") as file:
        expect(f"{unit}: system calls are filtered",
               re.search(r"^Seccomp:\t(\d)", file.read(), re.M)[1], "2")


def health_of(lab):
    return [backend["health"] for backend in json.loads(lab.balancer.run("weirctl backend show --json"))]


def serves(lab):
    """Returns whether all backends are healthy and a request succeeds."""
    return set(health_of(lab)) == {"healthy"} and request(lab.client, lab.vip) is None


# --- newcomer -----------------------------------------------------------------------------------

def install_changes_nothing(lab, apt="apt-get -q -y "):
    """After the installation, the programs can be run, the configuration is valid, and no unit is
    started or enabled."""
    machine = lab.balancer
    said = machine.in_chroot("apt-get -q update && " + three_commands()[0].replace("apt ", apt))
    if "nothing was started" not in said:
        raise AssertionError("the installation does not print what to do next")
    version = machine.in_chroot("weir-dataplane --version && weir-control --version && weirctl --version")
    expect("versions", len(set(re.findall(r" (\d\S*)", version))), 1)
    machine.in_chroot("weirctl config check /etc/weir/weir.json | grep ' services: 0, .* warnings: 1)$'")
    machine.in_chroot("getent passwd weir && getent group weir weir-admin")
    expect("units that are enabled", machine.in_chroot(
        f"systemctl is-enabled {' '.join(UNITS)} || true").split(), ["disabled"] * len(UNITS))


def units_start_with_the_packaged_configuration(lab):
    lab.balancer.boot()
    lab.balancer.run("systemctl start weir-dataplane weir-control")
    wait_for("the processes find each other", lambda: json.loads(lab.balancer.run(
        "weirctl version --json"))["dataplane"]["attached"], WAIT_S)
    lab.balancer.run("systemctl stop weir-dataplane weir-control")


def three_commands_set_up_a_balancer(lab):
    _, second, start = three_commands()
    init, _, edit = second.partition(" && ")
    expect("the second command edits", edit.split()[-1], "/etc/weir/weir.json")
    lab.balancer.run(init)
    lab.balancer.run("weirctl config check --strict /etc/weir/weir.json")
    with open(lab.balancer.root + "/etc/weir/weir.json", "w", encoding="utf-8") as file:
        file.write(first_configuration())
    lab.balancer.run(start)
    for unit in ("weir-dataplane", "weir-control"):
        expect_sandboxed(lab.balancer, unit)
    lab.start_backends()
    wait_for("all backends are healthy and a request is answered", lambda: serves(lab), WAIT_S)
    expect("the balancer starts at boot", lab.balancer.run(
        "systemctl is-enabled weir-dataplane weir-control").split(), ["enabled"] * 2)
    lab.balancer.run("systemctl reload weir-control")


def look_at_the_page(lab):
    """Open the page in Chromium while a client makes requests, and write a screenshot to
    WEIR_SCREENSHOTS."""
    requests = Requests(lab.client, lab.vip)
    browser = Browser(lab.balancer.net, lab.args.folder)
    try:
        browser.open(f"http://{METRICS}/")
        wait_for("a plot of packets", lambda: browser.run(
            "return document.querySelector('#plots path').getAttribute('d').includes('L');"), WAIT_S)
        browser.updated(2)
        requests.expect_more("while the page is looked at")
        expect("the page's services", [row[0] for row in browser.rows("services")], ["web"])
        expect("the page's backends", [row[:3] for row in browser.rows("backends")], [
            [backend["name"], backend["address"], "healthy"]
            for backend in lab.config["services"][0]["backends"]])
        expect("complaints of the browser", browser.complaints(), [])
        browser.screenshot("newcomer")
    finally:
        browser.program.kill()
        requests.stop()


def metrics_and_page_are_served(lab):
    """The command of the README starts weir-metrics in the sandbox of its unit."""
    command, = re.findall(r"^systemctl enable --now weir-metrics", readme(), re.M)
    lab.balancer.run(command)
    expect_sandboxed(lab.balancer, "weir-metrics")
    metrics = lab.balancer.net.run("curl", "-sS", "-m", "5", "-f", f"http://{METRICS}/metrics")
    for backend in lab.config["services"][0]["backends"]:
        line = f'weir_backend_health{{service="web",backend="{backend["name"]}",state="healthy"}} 1'
        if line not in metrics.splitlines():
            raise AssertionError(f"/metrics has no line {line}:\n{metrics}")
    look_at_the_page(lab)
    lab.balancer.run("systemctl restart weir-metrics && "
                     "test $(stat -L -c %a /var/lib/weir-metrics/history.json) = 600")
    said = lab.balancer.journal("weir-metrics")
    # Records of the journal have a timestamp, so the program writes no timestamp
    if "\nweir-metrics " not in said:
        raise AssertionError(f"the journal of weir-metrics has other records:\n{said}")


def killed_processes_are_started_again(lab):
    for unit in ("weir-control", "weir-dataplane"):
        before = lab.balancer.pid(unit)
        lab.balancer.run(f"kill -KILL {before}")
        wait_for(f"another {unit}", lambda: lab.balancer.pid(unit) not in (0, before), WAIT_S)
        wait_for("requests are answered", lambda: serves(lab), WAIT_S)


def stopped_dataplane_is_restarted_by_the_watchdog(lab):
    before = lab.balancer.pid("weir-dataplane")
    lab.balancer.run(f"kill -STOP {before}")
    wait_for("another weir-dataplane",
             lambda: lab.balancer.pid("weir-dataplane") not in (0, before), WAIT_S)
    if "watchdog" not in lab.balancer.journal("weir-dataplane").lower():
        raise AssertionError("no watchdog in the journal of weir-dataplane")
    wait_for("requests are answered", lambda: serves(lab), WAIT_S)


def drop_in(machine, unit, sample, name):
    """Install a drop-in as the documents describe."""
    machine.run(f"install -D -m 644 {sample} /etc/systemd/system/{unit}.service.d/{name} && "
                "systemctl daemon-reload")


def checks_via_the_data_path_need_no_drop_in(lab):
    """Checks via the data path detect that a server lacks the VIP; other checks do not."""
    lab.balancer.net.sysctl(net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__eth1__rp_filter=0)
    lab.configure(health_check={"type": "http", "path": "/healthz", "via": "data-path"})
    lab.balancer.run("systemctl restart weir-control")
    expect_sandboxed(lab.balancer, "weir-control")
    wait_for("all backends healthy", lambda: serves(lab), WAIT_S)
    lab.backends[0].net.ip("address", "del", lab.vip + "/32", "dev", "lo")
    wait_for("the missing VIP is found", lambda: health_of(lab) == ["refusing", "healthy"], WAIT_S)
    lab.backends[0].net.ip("address", "add", lab.vip + "/32", "dev", "lo")
    wait_for("all backends healthy again", lambda: serves(lab), WAIT_S)


def agent_runs_in_its_sandbox(lab):
    """The agent runs with its meter (meter.bpf.c). A helper process loads the meter with bpf(),
    although the system call filter is active."""
    machine = lab.backends[0]
    machine.run("umask 027; weir-agent key generate > /etc/weir/agent.keys; "
                "chgrp weir /etc/weir/agent.keys; echo OPTIONS=--port 80 > /etc/weir/agent.env; "
                "systemctl enable --now weir-agent")
    expect_sandboxed(machine, "weir-agent")
    machine.run("systemctl reload weir-agent && weir-agent status")
    said = machine.journal("weir-agent")
    if re.search(r"(?i)not permitted|permission denied|cannot", said):
        raise AssertionError(f"weir-agent: {said}")


def agents_permit_steals_by_their_drop_in(lab):
    """If a server is stopped and its accept queue is full, its waiting connections are moved to the
    other server."""
    keys = lab.backends[0].run("cat /etc/weir/agent.keys")
    for machine in (lab.balancer, *lab.backends):
        with open(machine.root + "/etc/weir/agent.keys", "w", encoding="ascii") as file:
            file.write(keys)
        machine.run("chown root:weir /etc/weir/agent.keys && chmod 640 /etc/weir/agent.keys")
    for machine in lab.backends:
        drop_in(machine, "weir-agent", "/usr/share/doc/weir-agent/examples/weir-agent-steal.conf",
                "steal.conf")
        machine.run("echo OPTIONS=--port 80 --allow-steal > /etc/weir/agent.env; "
                    "systemctl restart weir-agent")
        expect_sandboxed(machine, "weir-agent")
    lab.configure(agent={"interval_ms": 500}, steal={}, health_check={"type": "none"})
    lab.balancer.run("weirctl config reload")
    wait_for("reports of both agents", lambda: [row["word"] for row in json.loads(
        lab.balancer.run("weirctl health show --json"))] == ["ready"] * 2, WAIT_S)
    answers, stopped = [], lab.servers[0]
    crowd = [threading.Thread(target=lambda: answers.append(request(lab.client, lab.vip, WAIT_S)))
             for _ in range(CROWD)]
    stopped.send_signal(signal.SIGSTOP)
    for thread in crowd:
        thread.start()
    try:
        wait_for("flows to be moved", lambda: json.loads(lab.balancer.run(
            "weirctl flow steals --json"))["services"][0]["moved"], WAIT_S)
    finally:
        stopped.send_signal(signal.SIGCONT)
    for thread in crowd:
        thread.join()
    expect("why requests failed", answers, [None] * CROWD)


def tools_run(lab):
    machine = lab.backends[1]
    machine.copy(*packages(lab.args.packages, "weir-tools", "weir-doc"))
    machine.copy(SOURCE + "/config/pcap-offline.json")
    # apt runs in the chroot, because the container reaches only the network of the lab
    machine.in_chroot("apt-get -q -y install --no-install-recommends ./weir-tools_*.deb ./weir-doc_*.deb")
    machine.run("weir-sim list && weir-sim run --json --seed 1 lame_duck | grep -q variants")
    machine.run("weir-bench --no-huge --flows 1k --packets 100k --runs 1 | grep established")
    machine.run("test -s /usr/share/doc/weir/docs/guide/operations.md")


# --- upgrade ------------------------------------------------------------------------------------

def set_up_balancer(lab):
    install_changes_nothing(lab, "apt-get -q -y --no-install-recommends ")
    lab.balancer.boot()
    three_commands_set_up_a_balancer(lab)
    lab.balancer.run("systemctl enable --now weir-metrics")
    lab.requests = Requests(lab.client, lab.vip)
    lab.requests.expect_more("before an upgrade")


def install(lab, folder):
    """Install with dpkg, because there is no network. Use the default answer to prompts about
    changed files."""
    before = {unit: lab.balancer.pid(unit) for unit in UNITS}
    path, = packages(folder, "weir")
    lab.balancer.copy(path)
    said = lab.balancer.run(f"dpkg --force-confdef --force-confold -i {os.path.basename(path)}")
    after = {unit: lab.balancer.pid(unit) for unit in before}
    expect("the dataplane continues", after["weir-dataplane"], before["weir-dataplane"])
    if "still runs the previous version" not in said:
        raise AssertionError("the upgrade does not print that the dataplane still runs the previous version")
    if after["weir-metrics"] in (0, before["weir-metrics"]):
        raise AssertionError(f"weir-metrics was not restarted: {after}")
    installed = lab.balancer.run("cat /etc/weir/weir.json")
    expect("the administrator's configuration", installed, first_configuration())
    return said, before["weir-control"] != after["weir-control"]


def changes_version(lab, folder, text):
    """If both versions have the same segment layout, control is restarted at once, and no request
    fails."""
    said, restarted = install(lab, folder)
    if not restarted or "not restarted" in said:
        raise AssertionError(f"weir-control was not restarted: {said}")
    wait_for("the new weir-control serves", lambda: serves(lab), WAIT_S)
    lab.requests.expect_more(text)


def changes_layout(lab, folder, text):
    """If the segment layouts differ, the running control continues until the dataplane is restarted,
    and is then replaced automatically."""
    said, restarted = install(lab, folder)
    if restarted or "does not serve the weir-dataplane that runs" not in said:
        raise AssertionError(f"weir-control was restarted: {said}")
    wait_for("the former weir-control serves", lambda: serves(lab), WAIT_S)
    lab.requests.expect_more(text)
    before = lab.balancer.pid("weir-control")
    lab.balancer.run("systemctl restart weir-dataplane")
    wait_for("another weir-control", lambda: lab.balancer.pid("weir-control") not in (0, before), WAIT_S)
    wait_for("the new processes to serve", lambda: serves(lab), WAIT_S)
    wait_for("requests are answered", lambda: request(lab.client, lab.vip) is None, WAIT_S)
    lab.requests.bad.clear()  # requests failed for about a second, while no dataplane was running
    lab.requests.expect_more(text + ", restarted")


def upgrade_and_downgrade_same_layout(lab):
    changes_version(lab, lab.args.same, "after an upgrade")
    expect("version", lab.balancer.run("dpkg-query -W -f '${Version}' weir"), version_in(lab.args.same))
    changes_version(lab, lab.args.packages, "after a downgrade")


def upgrade_and_downgrade_other_layout(lab):
    changes_layout(lab, lab.args.other, "after an upgrade to another layout")
    changes_layout(lab, lab.args.packages, "after a downgrade to another layout")


def refused_configuration_keeps_control_running(lab):
    """If the new version refuses the configuration (here because the file is damaged), the running
    control continues."""
    lab.balancer.run("cp /etc/weir/weir.json good.json; echo '{' > /etc/weir/weir.json")
    before = lab.balancer.pid("weir-control")
    path, = packages(lab.args.packages, "weir")
    said = lab.balancer.run(f"dpkg --force-confdef --force-confold -i {os.path.basename(path)}")
    if "refuses the configuration" not in said:
        raise AssertionError(f"the upgrade does not report that it refuses the configuration: {said}")
    expect("weir-control continues", lab.balancer.pid("weir-control"), before)
    lab.balancer.run("cp good.json /etc/weir/weir.json")
    lab.requests.expect_more("after a refused configuration")


def removal_stops_and_purge_removes(lab):
    lab.requests.stop()
    lab.balancer.run("dpkg --purge weir")
    for unit in UNITS:
        expect(unit, lab.balancer.property(unit, "ActiveState"), "inactive")
    lab.balancer.run("test ! -e /etc/weir/weir.json && test ! -e /usr/sbin/weir-dataplane && "
                     "test ! -e /var/lib/private/weir-metrics && test ! -L /var/lib/weir-metrics")


def version_in(folder):
    path, = packages(folder, "weir")
    return sh("dpkg-deb", "-f", path, "Version").strip()


CHECKS = {
    "newcomer": (install_changes_nothing, units_start_with_the_packaged_configuration,
                 three_commands_set_up_a_balancer, metrics_and_page_are_served,
                 checks_via_the_data_path_need_no_drop_in, killed_processes_are_started_again,
                 stopped_dataplane_is_restarted_by_the_watchdog, agent_runs_in_its_sandbox,
                 agents_permit_steals_by_their_drop_in, tools_run),
    "upgrade": (set_up_balancer, upgrade_and_downgrade_same_layout,
                upgrade_and_downgrade_other_layout, refused_configuration_keeps_control_running,
                removal_stops_and_purge_removes),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=CHECKS)
    for name in ("--base", "--folder", "--packages"):
        parser.add_argument(name, required=True)
    parser.add_argument("--same")
    parser.add_argument("--other")
    args = parser.parse_args()
    passed = failed = 0
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))  # exit, so that the lab is removed
    lab = Lab(args)
    lab.balancer.copy(*packages(args.packages, "weir"))
    try:
        for check in CHECKS[args.part]:
            start = time.monotonic()
            try:
                check(lab)
                passed += 1
                print(f"ok      {check.__name__} ({time.monotonic() - start:.0f} s)", flush=True)
            except AssertionError:
                failed += 1
                traceback.print_exc()
                lab.show_journals()
                print(f"FAILED  {check.__name__}: see {lab.log}", flush=True)
                break  # the next checks depend on the state after this check
    finally:
        lab.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
