# SPDX-License-Identifier: BSD-3-Clause
"""Health checks of every type with real servers, and reports of the backends in their responses."""
import os
import time
from collections import Counter

import clients
from agents import Agents
from lab import HERE, PYTHON, VIP4, backend_address, service
from netns import sh, wait_for
from scenario import scenario
from scenarios_doctor import find

GRPC = os.path.join(HERE, "..", "unit", "control", "daemon", "health", "grpc_server.py")
BACKENDS = {"web-1": 100, "web-2": 100}
THREE = {**BACKENDS, "web-3": 100}


def checked(name, port, **more):
    return service(name, port, protocol="udp", backends=BACKENDS, **more)


def write(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(content)


def start_servers(lab, number):
    """Start the check servers of a backend. Returns the folder that they read."""
    folder = os.path.join(lab.dir, f"checks-{number}")
    os.mkdir(folder)
    sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
       "-subj", "/CN=web", "-addext", "subjectAltName=DNS:web.example", "-days", "2",
       "-keyout", os.path.join(folder, "web.key"), "-out", os.path.join(folder, "web.pem"))
    write(folder, "line", "up 100%")
    namespace = lab.namespaces[f"b{number}"]
    lab.program(f"checks-{number}", namespace, PYTHON, os.path.join(HERE, "check_server.py"),
                folder)
    lab.program(f"grpc-{number}", namespace, PYTHON, GRPC, "8401", "8402", "8403", "8404",
                os.path.join(folder, "web.key"), os.path.join(folder, "web.pem"))
    return folder


def expect(lab, service_name, *states):
    wait_for(f"{service_name}: {states}", lambda: states == tuple(
        lab.backend(name, service_name)["health"] for name in BACKENDS))


@scenario(start=False, hosts=2, services=[
    checked("tls", 9001, check={"type": "https", "port": 8443, "verify": False, "body": "ok"}),
    checked("rpc", 9002, check={"type": "grpc", "port": 8401, "grpc_service": "serving"}),
    checked("line", 9003, check={"type": "agent-check", "port": 9777}),
    checked("beside", 9004, check={"type": "tcp", "port": 8443},
            agent_check={"port": 9777, "interval_ms": 300, "timeout_ms": 300}),
    checked("rarely", 9005, check={"type": "tcp", "port": 8443, "interval_ms": 3000, "retry_interval_ms": 100,
                                   "rise": 1, "fall": 5})])
def checks_of_every_type(lab):
    """Checks by HTTPS, gRPC and agent-check detect healthy backends, announced states, and stopped servers"""
    folder = [start_servers(lab, number) for number in (1, 2)][0]
    lab.start()
    for name in ("tls", "rpc", "line", "beside"):
        expect(lab, name, "healthy", "healthy")
    write(folder, "state", "lame-duck")
    expect(lab, "tls", "lame-duck", "healthy")
    os.remove(os.path.join(folder, "state"))
    expect(lab, "tls", "healthy", "healthy")
    write(folder, "line", "drain")
    expect(lab, "line", "lame-duck", "healthy")
    expect(lab, "beside", "lame-duck", "healthy")
    write(folder, "line", "up")  # "up" does not end a drain
    time.sleep(1)
    expect(lab, "line", "lame-duck", "healthy")
    lab.weirctl("backend", "ready", "beside/web-1")
    time.sleep(1)
    expect(lab, "beside", "healthy", "healthy")
    expect(lab, "line", "lame-duck", "healthy")
    write(folder, "line", "drain")  # the server announces the state again
    expect(lab, "beside", "lame-duck", "healthy")
    write(folder, "line", "up ready")
    expect(lab, "line", "healthy", "healthy")
    expect(lab, "beside", "healthy", "healthy")
    own = ("own_weight", "max_active_flows")
    write(folder, "line", "75% maxconn:20")
    wait_for("own weight and limit", lambda: [lab.backend("web-1", "beside")[key] for key in own] == [75, 20])
    write(folder, "line", "up")  # "up" changes neither the weight nor the limit
    time.sleep(1)
    assert [lab.backend("web-1", "beside")[key] for key in own] == [75, 20]
    write(folder, "line", "up 100% maxconn:0")
    wait_for("no limit", lambda: [lab.backend("web-1", "beside")[key] for key in own] == [100, None])
    write(folder, "state", "drain")  # not a word of X-Weir-State
    wait_for("unknown state", lambda: 'unknown state "drain", use "lame-duck"' in
             lab.weirctl("health", "show", "tls")[1])
    os.remove(os.path.join(folder, "state"))
    expect(lab, "tls", "healthy", "healthy")
    assert "agent-check: reply" in lab.weirctl("health", "show", "beside")[1]
    lab.programs["grpc-1"].kill()
    expect(lab, "rpc", "refusing", "healthy")
    expect(lab, "tls", "healthy", "healthy")
    expect(lab, "rarely", "healthy", "healthy")
    lab.programs["checks-1"].kill()
    begin = time.monotonic()
    # takes 3 s plus four quick retries; without quick retries, it would take 12 s
    expect(lab, "rarely", "refusing", "healthy")
    assert time.monotonic() - begin < 8
    expect(lab, "tls", "refusing", "healthy")
    expect(lab, "beside", "refusing", "healthy")


def wait_for_results(lab, count):
    """Wait until each check, and each probe of an agent, has had `count` more results."""
    ended, ages = Counter(), {}

    def look():
        for row in lab.api("health.show"):
            check, age = (row["service"], row["backend"]), row["last"]["age_ms"] if row["last"] else 0
            ended[check] += age < ages.get(check, 0)
            ages[check] = age
        return min(ended.values()) >= count

    wait_for(f"{count} results of each check", look, 20, 0.02)


def without_link(lab, namespace):
    """Take the balancer's link down for more than `fall` checks, and stop web-3 during this time."""
    def no_results():
        rows = [(row["service"], row["backend"], row["last"]["detail"]) for row in lab.api("health.show")
                if row["last"]["detail"] != "no result: port wan has no link"]
        assert not rows, rows
        return True

    lines = clients.line_per_backend(lab.client, VIP4, [f"web-{number}" for number in lab.hosts])
    for line in lines.values():
        line.sock.settimeout(20)
    changes = len(lab.api("health.history"))
    namespace.ip("link", "set", "lb0", "down")
    wait_for("checks without a result", no_results, 10, 0.1)
    wait_for_results(lab, 6)
    no_results()
    code, out, _ = lab.weirctl("status", check=False)
    assert code == 2 and "port wan has no link" in out, (code, out)
    lab.stop_host(3)
    namespace.ip("link", "set", "lb0", "up")
    dead = lines.pop("web-3")
    clients.check_lines(lines)
    wait_for("web-3 refusing", lambda: all(row["health"] == "refusing" for row in lab.api("health.show")
                                           if row["backend"] == "web-3"), 10)
    clients.check_lines(lines)
    blamed = [change for change in lab.api("health.history")[changes:]
              if change["to"] == "refusing" and change["backend"] != "web-3"]
    assert not blamed, blamed
    for line in [dead, *lines.values()]:
        line.close()
    lab.start_host(3)
    wait_for("every backend usable", lab.all_usable, 20)


@scenario(start=False, hosts=3, services=[
    service("lines", 7000, backends=THREE, vips=(VIP4,), check={"type": "tcp"}, on_backend_down="reset"),
    service("path", 80, backends=THREE, vips=(VIP4,), check={"type": "http", "path": "/healthz", "via": "data-path"}),
    service("agents", 9000, protocol="udp", backends=THREE, vips=(VIP4,),
            agent={"interval_ms": 300, "inactive_interval_ms": 600, "timeout_ms": 300},
            health_check={"type": "agent", "rise": 1, "fall": 3})])
def lost_link_fails_no_check(lab):
    """Without a link, checks have no result; a server that stops during this time is detected when the link is up"""
    agents = Agents(lab)
    lab.extra = Agents.configuration(lab)
    lab.write_config()
    lab.control_options += ("--data-path-checks",)
    lab.start_backends()
    agents.start_all()
    lab.start_dataplane()
    lab.start_control()
    wait_for("every backend usable", lab.all_usable, 20)
    for namespace in (lab.net, lab.lb):  # first without a carrier, then set down
        without_link(lab, namespace)


def refused(lab):
    """Returns the changes to "refusing" in the health history."""
    return [change for change in lab.api("health.history") if change["to"] == "refusing"]


@scenario(start=False, hosts=3, two_armed=True, services=[
    service("lines", 7000, backends=THREE, vips=(VIP4,), check={"type": "tcp"})])
def lost_link_blames_no_backend_at_restarts(lab):
    """If one of two ports has no link, no backend becomes refusing when control or dataplane restarts"""
    lab.start()
    lab.net.ip("link", "set", "lb1", "down")
    wait_for("no next hops", lambda: not any(row["resolved"] for row in lab.backends()), 10)
    lab.programs["control"].kill()
    lab.start_control()
    wait_for_results(lab, 6)
    assert not refused(lab), refused(lab)
    lab.programs["dataplane"].stop()
    wait_for_results(lab, 6)
    lab.start_dataplane()
    wait_for_results(lab, 6)
    lab.net.ip("link", "set", "lb1", "up")
    wait_for("every backend usable", lab.all_usable, 20)
    assert not refused(lab), refused(lab)


@scenario(start=False, hosts=2, services=[
    service("often", 80, backends=BACKENDS, vips=(VIP4,),
            check={"type": "tcp", "interval_ms": 300, "timeout_ms": 300, "retry_interval_ms": 10}),
    service("six", 8082, vips=(VIP4,), check={"type": "tcp", "port": 80},
            backends=[{"name": f"web-{n}", "address": backend_address(n, 6)} for n in (1, 2)])])
def disabled_link_blames_no_backend(lab):
    """While the balancer has no route or no IPv6 address, failed checks do not make a backend refusing"""
    lab.start()
    for _ in range(3):
        lab.lb.ip("link", "set", "lb0", "down")
        wait_for_results(lab, 4)
        assert not refused(lab), refused(lab)
        lab.lb.ip("link", "set", "lb0", "up")  # without the IPv6 address, which the kernel removed
        wait_for_results(lab, 6)
        lab.lb.ip("addr", "add", "2001:db8:a::2/64", "dev", "lb0", "nodad")
        wait_for("every backend usable", lab.all_usable, 20)
        assert not refused(lab), refused(lab)
    lab.stop_host(1)
    wait_for("web-1 refusing", lambda: {change["service"] for change in refused(lab)} == {"often", "six"}, 10)


BOTH_ARMS = [{"name": f"web-{n}", "address": backend_address(n, 6 if n % 2 == 0 else 4)} for n in (1, 2, 3, 4)]


def disable_port(lab):
    """Take the interface of the port lan down, and remove it later. Its subnets have unreachable routes."""
    def no_results():
        details = {row["backend"]: row["last"]["detail"] for row in lab.api("health.show")}
        assert details["web-1"] == details["web-2"] == "no result: port lan has no link", details
        return True

    def served(count=40):
        found = Counter()
        for _ in range(count):
            line = clients.Line(lab.client, VIP4)
            found[line.backend] += 1
            line.close()
        return set(found)

    lb = lab.lb
    lb.ip("route", "add", "10.0.0.13", "via", "10.1.0.1")  # web-3 and web-4 are behind the other port
    lb.ip("-6", "route", "add", backend_address(4, 6), "via", "2001:db8:b::1")
    lb.ip("route", "add", "unreachable", "10.0.0.0/24", "metric", "4000000")
    lb.ip("-6", "route", "add", "unreachable", "2001:db8:a::/64", "metric", "4000000")
    lab.start()
    lines = clients.line_per_backend(lab.client, VIP4, [each["name"] for each in BOTH_ARMS])
    for line in lines.values():
        line.sock.settimeout(20)
    lb.ip("link", "set", "lb1", "down")
    wait_for("checks without a result", no_results, 10, 0.1)
    wait_for("no next hops behind lan", lambda: {row["name"] for row in lab.backends() if not row["resolved"]} ==
             {"web-1", "web-2"}, 10)
    wait_for_results(lab, 6)
    no_results()
    assert served() == {"web-3", "web-4"} and not refused(lab), refused(lab)
    lab.programs["control"].kill()
    lab.start_control()  # which does not find out which port led to web-1 and web-2
    wait_for_results(lab, 6)
    assert not refused(lab), refused(lab)
    for number in (1, 2):
        row = find(lab, "checks", f"lines/web-{number}", "warning", "a route of this host refuses packets to the backend")
        assert "unreachable " in lb.run("bash", "-ec", row["cure"]), row
    lb.ip("link", "set", "lb1", "up")
    lb.ip("addr", "add", "2001:db8:a::2/64", "dev", "lb1", "nodad")
    clients.check_lines(lines)
    wait_for("every backend usable", lab.all_usable, 20)
    assert served() == set(lines) and not refused(lab), refused(lab)
    lb.ip("link", "del", "lb1")
    wait_for("checks without a result", no_results, 10, 0.1)
    wait_for_results(lab, 6)
    assert not refused(lab), refused(lab)
    clients.check_lines({name: lines[name] for name in ("web-3", "web-4")})


BOTH_ARMS_LINES = service("lines", 7000, backends=BOTH_ARMS, vips=(VIP4,), check={"type": "tcp", "port": 80},
                          on_backend_down="reset")


@scenario(start=False, two_armed=True, services=[BOTH_ARMS_LINES])
def unreachable_routes_keep_backends_of_a_disabled_port(lab):
    """If the interface of a port is down, and its subnets have unreachable routes, no check of its backends fails"""
    disable_port(lab)


@scenario(start=False, two_armed=True, services=[BOTH_ARMS_LINES])
def unreachable_routes_count_despite_a_static_gateway(lab):
    """The same if the other port has a gateway_mac: it sends no packets to backends with an unreachable route"""
    lab.port = {"gateway_mac": lab.mac(lab.net, "lb0"), "source_ipv4": "10.1.0.2", "source_ipv6": "2001:db8:b::2"}
    lab.write_config()
    disable_port(lab)
