# SPDX-License-Identifier: BSD-3-Clause
"""Health checks via the data path: their results and requirements, and the removal of their device and rules."""
import json
import socket
import struct
import time

from clients import Line, curl_batch
from lab import VIP4, VIP6, backend_address, service
from netns import sh, wait_for
from scenario import scenario
from scenarios_checks import start_servers
from scenarios_doctor import cure, find

VIA = {"via": "data-path"}
HTTP = {"type": "http", "path": "/healthz", **VIA}
TCP = {"type": "tcp", "port": 80, **VIA}
OUTER6 = [{"name": f"web-{n}", "address": backend_address(n, 6)} for n in (1, 2, 3, 4)]
OPTION = "--data-path-checks"
NEW_VIP = "198.51.100.13"
# Maximum time until a lost VIP is detected, in seconds: `fall` (3) check intervals of lab.py, one
# interval for a check of the other VIP, one timeout, and time to poll.
FOUND_S = 4 * 0.42 + 0.4 + 1.0


def state(lab, service_name, number):
    return lab.backend(f"web-{number}", service_name)["health"]


def wait_for_states(lab, number, **states):
    wait_for(f"web-{number}: {states}", lambda: states == {
        name: state(lab, name, number) for name in states})


def detail(lab, service_name, number):
    return next(row for row in lab.api("health.show", service=service_name)
                if row["backend"] == f"web-{number}")["last"]


def wait_for_no_result(lab, number, why, when=""):
    """Wait until the backend is shown as unchecked for this reason. Checks of another VIP may
    fail before that."""
    wait_for(f"no result {when}: {why}", lambda: lab.backend(f"web-{number}")["unchecked_ms"]
             and detail(lab, "web", number)["ok"] is None
             and detail(lab, "web", number)["detail"] == "no result: " + why)


def passed_checks(lab):
    return [row["passes"] for row in lab.api("health.show", service="lines")]


def change_vip(lab, number, what, vip):
    lab.namespaces[f"b{number}"].ip("addr", what, vip + ("/128" if ":" in vip else "/32"), "dev",
                                    "lo")


def start(lab, *options):
    lab.control_options += options
    lab.start()


def rules(lab):
    """Returns the routing rules of both families that select the table of data path checks."""
    return [rule for family in ("-4", "-6")
            for rule in json.loads(sh("ip", "-n", lab.lb.name, "-d", "-j", family, "rule"))
            if rule.get("table") == "47770"]


@scenario(start=False, services=[
    service("web", 80, check=HTTP),
    service("direct", 8081, check={"type": "http", "path": "/healthz", "port": 80}),
    service("six", 8082, vips=(VIP6, VIP4), check=TCP),
    service("outer6", 8083, backends=OUTER6, check=TCP),
    service("tls", 8443, check={"type": "https", "verify": False, "body": "ok", **VIA})])
def data_path_checks_find_lost_vips(lab):
    """A backend without decapsulation, or without one of its VIPs, is refusing; direct checks do not detect it"""
    for number in lab.hosts:
        start_servers(lab, number)
    start(lab, OPTION)
    healthy = {name: "healthy" for name in ("web", "direct", "six", "outer6", "tls")}
    assert curl_batch(lab.client, VIP4, 20).failed == 0
    change_vip(lab, 1, "del", VIP4)
    begun = time.monotonic()
    wait_for_states(lab, 1, web="refusing")
    assert time.monotonic() - begun < FOUND_S, time.monotonic() - begun
    wait_for_states(lab, 1, **{**healthy, "web": "refusing", "outer6": "refusing",
                               "tls": "refusing"})
    lab.wait_published()
    result = curl_batch(lab.client, VIP4, 60)
    assert result.failed == 0 and "web-1" not in result.served, (result.errors, result.served)
    assert "http via data-path" in lab.weirctl("health", "show", "web")[1]
    change_vip(lab, 1, "add", VIP4)
    wait_for_states(lab, 1, **healthy)
    change_vip(lab, 1, "del", VIP6)  # web and tls have this VIP as their second VIP
    wait_for_states(lab, 1, **{**healthy, "six": "refusing", "web": "refusing", "tls": "refusing"})
    assert detail(lab, "web", 1)["detail"].startswith(VIP6 + ": "), detail(lab, "web", 1)
    lab.wait_published()
    result = curl_batch(lab.client, VIP6, 60)
    assert result.failed == 0 and "web-1" not in result.served, (result.errors, result.served)
    change_vip(lab, 1, "add", VIP6)
    wait_for_states(lab, 1, **healthy)
    lab.programs["agent-2"].stop()
    wait_for_states(lab, 2, **{**{name: "refusing" for name in healthy}, "direct": "healthy"})
    wait_for_states(lab, 1, **healthy)
    lab.wait_published()
    result = curl_batch(lab.client, VIP6, 60)
    assert result.failed == 0 and "web-2" not in result.served, (result.errors, result.served)
    lab.program("agent-2", lab.namespaces["b2"], lab.binary("weir-agent"), "decap", "eth0")
    wait_for_states(lab, 2, **healthy)
    # The kernel also lists the default route in the table of the data path checks. config init
    # must not use this route to find the interface.
    lab.lb.ip("route", "del", "default")
    assert ",iface=lb" in lab.weirctl("config", "init", "-")[1]


@scenario(start=False, hosts=2, services=[service("web", 80, backends={"web-1": 1, "web-2": 1},
                                                  check=HTTP)])
def data_path_checks_without_a_result_change_nothing(lab):
    """If a VIP is local, or the device of the checks was removed, the checks change no state, and show the reason"""
    start(lab, OPTION)
    lab.lb.ip("addr", "add", VIP4 + "/32", "dev", "lo")
    wait_for_no_result(lab, 1, f"{VIP4} is an address of this host")  # checks of the other VIP pass
    change_vip(lab, 2, "del", VIP6)
    wait_for_states(lab, 2, web="refusing")
    change_vip(lab, 2, "add", VIP6)
    wait_for_states(lab, 2, web="healthy")
    lab.lb.ip("addr", "del", VIP4 + "/32", "dev", "lo")
    wait_for("a result", lambda: detail(lab, "web", 1)["ok"])
    lab.lb.ip("link", "del", "weir-check")
    wait_for_no_result(lab, 2, "device weir-check was removed: restart weir-control")
    assert "device weir-check was removed" in lab.programs["control"].output()
    wait_for_states(lab, 1, web="healthy")
    wait_for_states(lab, 2, web="healthy")


@scenario(start=False, hosts=2, services=[service("web", 80, backends={"web-1": 1, "web-2": 1},
                                                  check=HTTP)])
def data_path_checks_continue_after_a_kill(lab):
    """After SIGKILL to control, the next process has the same device and rules, without duplicates"""
    start(lab, OPTION)
    assert len(rules(lab)) == 4, rules(lab)
    second = lab.program("second", lab.lb, lab.binary("weir-control"), "--config", lab.config_path,
                         "--run-dir", lab.run_dir, *lab.control_options)
    wait_for("the second process to end", lambda: not second.alive(), 10)
    assert second.process.returncode == 1 and "already running" in second.output(), second.output()
    tables = sh("ip", "-n", lab.lb.name, "rule")
    assert "47771" not in tables, tables  # rules for this table would never be removed
    # When systemd-networkd restarts, it removes rules whose protocol is not "kernel".
    assert {rule["protocol"] for rule in rules(lab)} == {"kernel"}, rules(lab)
    for _ in range(2):
        lab.programs["control"].kill()
        assert len(rules(lab)) == 4, rules(lab)
        lab.start_control()
        lab.wait_ready()
        wait_for("a check", lambda: detail(lab, "web", 1)["ok"])
        assert len(rules(lab)) == 4, rules(lab)
    change_vip(lab, 2, "del", VIP4)
    wait_for_states(lab, 2, web="refusing")
    wait_for_states(lab, 1, web="healthy")


@scenario(start=False, hosts=2, services=[service("web", 80, backends={"web-1": 1, "web-2": 1},
                                                  check=HTTP)])
def data_path_checks_need_their_option(lab):
    """Without the option or its privileges, control refuses data path checks at its start and in a reload"""
    lab.start_backends()
    lab.start_dataplane()

    def ends(*options, **more):
        with lab.lb.inside():
            text = sh(*more.get("as_user", ()), lab.binary("weir-control"), "--config",
                      lab.config_path, "--run-dir", lab.run_dir, *options, check=False)
        return text
    text = ends(*lab.control_options)
    assert "services[0].health_check.via: \"data-path\" needs weir-control to be started with " \
        + OPTION in text, text
    text = ends(OPTION, as_user=("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"))
    assert "start as root, or with CAP_NET_ADMIN and CAP_NET_RAW" in text, text
    wanted = lab.services
    lab.write_config([service("web", 80, backends={"web-1": 1, "web-2": 1})])
    lab.start_control()
    lab.wait_ready()
    lab.write_config(wanted)
    code, _, errors = lab.weirctl("config", "reload", check=False)
    assert code == 1 and OPTION in errors, (code, errors)
    assert lab.backends("web")[0]["health"] == "healthy"


@scenario(start=False, hosts=2, services=[service("web", 80, backends={"web-1": 1, "web-2": 1},
                                                  check=HTTP)])
def data_path_checks_need_an_address_of_the_family(lab):
    """If the balancer has no IPv6 address, checks of the IPv6 VIP have no result, and checks of the IPv4 VIP have results"""
    start(lab, OPTION)
    wait_for_states(lab, 1, web="healthy")
    lab.lb.ip("-6", "addr", "flush", "dev", "lb0", "scope", "global")
    for routes in ("with a default route", "without"):
        wait_for_no_result(lab, 1, "this host has no address of the VIP's family", routes)
        lab.lb.ip("-6", "route", "flush", "default")
    for number in (1, 2):
        wait_for_states(lab, number, web="healthy")
    change_vip(lab, 1, "del", VIP4)
    wait_for_states(lab, 1, web="refusing")
    wait_for_states(lab, 2, web="healthy")


@scenario(start=False, hosts=2, services=[
    service("web", 80, backends=OUTER6[:2], check={**TCP, "port": 80})])
def data_path_checks_use_an_address_of_the_loopback_interface(lab):
    """Checks work if the balancer's only IPv4 address is on lo, as on routers, and the VIP has an unreachable route"""
    lab.lb.ip("addr", "del", "10.0.0.2/24", "dev", "lb0")
    lab.lb.ip("addr", "add", "10.0.0.2/32", "dev", "lo")
    lab.lb.ip("route", "add", "unreachable", "198.51.100.0/24")
    lab.control_options += (OPTION,)
    lab.start_backends()
    lab.start_dataplane()
    lab.start_control()
    wait_for_states(lab, 1, web="healthy")
    wait_for("checks of both VIPs", lambda: lab.api("health.show")[0]["passes"] >= 4)
    assert not lab.backend("web-1")["unchecked_ms"], lab.api("health.show")
    change_vip(lab, 2, "del", VIP4)
    wait_for_states(lab, 2, web="refusing")
    wait_for_states(lab, 1, web="healthy")


SIX_VIPS = [f"198.51.100.{n}" for n in range(20, 26)]


@scenario(start=False, hosts=1, services=[service("web", 80, backends={"web-1": 1}, vips=SIX_VIPS, check=HTTP)])
def data_path_checks_pass_once_for_each_vip(lab):
    """One failed check of a VIP does not discard the passed checks of the VIPs before it"""
    for vip in SIX_VIPS[:4] + SIX_VIPS[5:]:
        change_vip(lab, 1, "add", vip)
    lab.control_options += (OPTION,)
    lab.start_backends()
    lab.start_dataplane()
    lab.start_control()
    wait_for("a failed check", lambda: lab.api("health.show")[0]["fails"] == 1, 10, 0.02)
    assert lab.api("health.show")[0]["passes"] == 4, lab.api("health.show")
    change_vip(lab, 1, "add", SIX_VIPS[4])
    wait_for_states(lab, 1, web="healthy")
    row = lab.api("health.show")[0]
    assert row["fails"] <= 2 and row["passes"] <= len(SIX_VIPS) + 1, row  # one more check may have passed by then


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total >> 16) + (total & 0xffff)
    return struct.pack("!H", ~(total + (total >> 16)) & 0xffff)


def forge_path_mtu(lab, backend, mtu):
    """The client sends an ICMP error with this path MTU. It quotes an echo reply, which the kernel does not verify."""
    quoted = struct.pack("!BBHHHBBH4s4sBBHI", 0x45, 0, 28, 1, 0x4000, 64, socket.IPPROTO_ICMP, 0,
                         socket.inet_aton("10.0.0.2"), socket.inet_aton(backend), 0, 0, 0xffff, 0)
    error = struct.pack("!BBHI", 3, 4, 0, mtu) + quoted
    with lab.client.inside(), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.sendto(error[:2] + checksum(error) + error[4:], ("10.0.0.2", 0))


@scenario(start=False, hosts=1, services=[
    service("tls", 8443, backends={"web-1": 1}, vips=(VIP4,), check={"type": "https", "verify": False, **VIA})])
def data_path_checks_ignore_a_forged_path_mtu(lab):
    """TLS checks still pass after a client has forged an ICMP error with a small path MTU"""
    start_servers(lab, 1)
    start(lab, OPTION)
    forge_path_mtu(lab, backend_address(1), 552)
    route = sh("ip", "-n", lab.lb.name, "route", "get", backend_address(1))
    assert "mtu 552" in route, route
    passes = lab.api("health.show")[0]["passes"]
    wait_for("three checks", lambda: sum(lab.api("health.show")[0][key] for key in ("passes", "fails")) > passes + 3)
    assert lab.api("health.show")[0]["fails"] == 0, lab.api("health.show")


@scenario(start=False, hosts=2, services=[
    service("lines", 7000, backends={"web-1": 1, "web-2": 1}, vips=(VIP4,),
            check={"type": "tcp", **VIA}, on_backend_down="reset")])
def a_vip_that_checks_will_cover_is_warned_of(lab):
    """config diff and reload warn of a new VIP that checks will cover; if backends get the VIP first, connections to others continue"""
    start(lab, OPTION)
    held = [Line(lab.client, VIP4) for _ in range(10)]
    assert {line.backend for line in held} == {"web-1", "web-2"}, held
    lab.write_config([service("lines", 7000, backends={"web-1": 1, "web-2": 1},
                              vips=(VIP4, NEW_VIP), check={"type": "tcp", **VIA},
                              on_backend_down="reset")])
    warning = f"warning: services[0].binds: checks via the data path will cover {NEW_VIP}, too: a " \
        "backend without this address fails its checks for all VIPs of the service, and its flows are reset; " \
        "see weirctl doctor"
    assert warning in "".join(lab.weirctl("config", "diff")[1:]), lab.weirctl("config", "diff")
    for number in (1, 2):
        cure(lab, find(lab, "backends", f"lines/web-{number}", "fault",
                       f"decapsulates, but VIP {NEW_VIP} does not answer"))
        find(lab, "backends", f"lines/web-{number}", "ok", "and its 2 VIPs answer")
    assert warning in "".join(lab.weirctl("config", "reload")[1:])
    assert "will cover" not in "".join(lab.weirctl("config", "diff")[1:])
    before = passed_checks(lab)
    wait_for("checks of both VIPs", lambda: min(
        now - then for now, then in zip(passed_checks(lab), before)) >= 4)
    assert all(line.ask() == line.backend for line in held), held
    assert Line(lab.client, VIP4).backend
    # If only the new VIP is missing, the whole backend is refusing.
    change_vip(lab, 1, "del", NEW_VIP)
    wait_for_states(lab, 1, lines="refusing")
    assert detail(lab, "lines", 1)["detail"].startswith(NEW_VIP + ": "), detail(lab, "lines", 1)
