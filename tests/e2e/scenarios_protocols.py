# SPDX-License-Identifier: BSD-3-Clause
"""Health checks that speak the protocol of the server: what they expect of its answers."""
import os
import signal

from lab import HERE, PYTHON, VIP4, backend_address, service
from netns import wait_for
from scenario import scenario

BACKENDS = {"web-1": 100, "web-2": 100}
PING = {"type": "tcp", "send": "PING\r\n", "expect": "+PONG"}
DNS = {"type": "dns", "name": "web.example", "record": "A", "address": "192.0.2.80"}
UDP = {"type": "udp", "send": "ping", "expect": "pong"}


def checked(name, port, check, protocol="tcp"):
    return service(name, port, protocol=protocol, backends=BACKENDS, vips=(VIP4,), check=check)


def last(lab, name):
    """Returns state and detail of web-1, and the state of web-2."""
    rows = {row["backend"]: row for row in lab.api("health.show", service=name)}
    return rows["web-1"]["health"], (rows["web-1"]["last"] or {}).get("detail"), rows["web-2"]["health"]


def expect(lab, state, **details):
    """Wait until web-1 of each service has this state and detail, while web-2 stays healthy."""
    for name, detail in details.items():
        def look(name=name, detail=detail):
            now = last(lab, name)
            assert now == (state, detail, "healthy"), now
            return True
        wait_for(f"{name}: {state}, {detail}", look, 10)


def start_server(lab, number):
    name = f"protocols-{number}"
    program = lab.program(name, lab.namespaces[f"b{number}"], PYTHON, os.path.join(HERE, "protocol_server.py"),
                          os.path.join(lab.dir, name), VIP4, backend_address(number))
    lab.wait_for_program(name, lambda: "serving" in program.output(), 10)
    return program


@scenario(start=False, hosts=2, services=[
    checked("redis", 6379, PING), checked("path", 6380, {**PING, "port": 6379, "via": "data-path"}),
    checked("smtp", 25, {"type": "tcp", "expect": "220"})])
def checks_that_send_and_expect(lab):
    """TCP checks that send and expect bytes detect a server that hangs, answers with an error, or is killed"""
    server = [start_server(lab, number) for number in lab.hosts][0]
    lab.control_options += ("--data-path-checks",)
    lab.start()
    healthy = {"redis": 'answer "+PONG"', "path": 'answer "+PONG"', "smtp": 'answer "220 mx.example ESMTP"'}
    expect(lab, "healthy", **healthy)
    server.signal(signal.SIGSTOP)  # the kernel still accepts connections
    expect(lab, "refusing", **dict.fromkeys(healthy, "connected, no answer for 400 ms"))
    server.signal(signal.SIGCONT)
    expect(lab, "healthy", **healthy)
    busy = os.path.join(lab.dir, "protocols-1")
    with open(busy, "w", encoding="ascii") as file:
        file.write("421 busy\r\n")
    expect(lab, "refusing", redis='answer "421 busy" instead of "+PONG"',
           path='answer "421 busy" instead of "+PONG"', smtp='answer "421 busy" instead of "220"')
    os.remove(busy)
    expect(lab, "healthy", **healthy)
    server.kill()
    expect(lab, "refusing", **dict.fromkeys(healthy, "connection refused"))
    start_server(lab, 1)
    expect(lab, "healthy", **healthy)


@scenario(start=False, hosts=2, services=[
    checked("direct", 7007, UDP, "udp"), checked("path", 7008, {**UDP, "port": 7007, "via": "data-path"}, "udp"),
    checked("weak", 7009, {"type": "udp", "port": 7007, "send": "?"}, "udp"),
    checked("weakpath", 7010, {"type": "udp", "port": 7007, "send": "?", "via": "data-path"}, "udp")])
def checks_over_udp(lab):
    """UDP checks detect a server that hangs, answers wrong or is killed; those via the data path also a lost VIP"""
    server = [start_server(lab, number) for number in lab.hosts][0]
    lab.control_options += ("--data-path-checks",)
    lab.start()
    strict = dict.fromkeys(("direct", "path"), 'answer "pong"')
    weak = dict.fromkeys(("weak", "weakpath"), "no ICMP error for 400 ms")
    expect(lab, "healthy", **strict, **weak)
    server.signal(signal.SIGSTOP)
    expect(lab, "refusing", **dict.fromkeys(strict, "no answer for 400 ms"))
    expect(lab, "healthy", **weak)
    server.signal(signal.SIGCONT)
    expect(lab, "healthy", **strict)
    wrong = os.path.join(lab.dir, "protocols-1")
    with open(wrong, "w", encoding="ascii") as file:
        file.write("error")
    expect(lab, "refusing", **dict.fromkeys(strict, 'answer "error" instead of "pong"'))
    os.remove(wrong)
    expect(lab, "healthy", **strict)
    lab.namespaces["b1"].sysctl(net__ipv4__icmp_ratelimit=0)  # otherwise one error per second for all checks
    server.kill()
    expect(lab, "refusing", **dict.fromkeys((*strict, *weak), "port unreachable"))
    start_server(lab, 1)
    expect(lab, "healthy", **strict, **weak)
    lab.namespaces["b1"].ip("addr", "del", VIP4 + "/32", "dev", "lo")
    expect(lab, "refusing", path="no answer for 400 ms")
    expect(lab, "healthy", direct='answer "pong"')


def start_dns(lab, number, *options):
    """Start a DNS server that refuses queries for names that it does not have."""
    return lab.program(f"dns-{number}", lab.namespaces[f"b{number}"], "dnsmasq", "--keep-in-foreground", "--conf-file=",
                       "--pid-file=", "--user=root", "--no-resolv", "--no-hosts", "--bind-interfaces",
                       f"--listen-address={backend_address(number)}", f"--listen-address={VIP4}", *options)


@scenario(start=False, hosts=2, services=[
    checked("direct", 53, DNS, "udp"), checked("path", 5353, {**DNS, "port": 53, "via": "data-path"}, "udp")])
def checks_of_a_dns_server(lab):
    """DNS checks detect a server that hangs, answers with an error or another address, or is killed"""
    right = "--address=/web.example/192.0.2.80"
    servers = [start_dns(lab, number, right) for number in lab.hosts]
    lab.control_options += ("--data-path-checks",)
    lab.start()
    names = ("direct", "path")
    healthy = dict.fromkeys(names, "NOERROR, 1 record")
    expect(lab, "healthy", **healthy)
    servers[0].signal(signal.SIGSTOP)
    expect(lab, "refusing", **dict.fromkeys(names, "no answer for 400 ms"))
    servers[0].signal(signal.SIGCONT)
    expect(lab, "healthy", **healthy)
    lab.namespaces["b1"].sysctl(net__ipv4__icmp_ratelimit=0)
    servers[0].kill()
    expect(lab, "refusing", **dict.fromkeys(names, "port unreachable"))
    for options, detail in (((), "rcode REFUSED, expected NOERROR"),
                            (("--address=/web.example/192.0.2.81",), "NOERROR, 1 record without 192.0.2.80")):
        wrong = start_dns(lab, 1, *options)
        expect(lab, "refusing", **dict.fromkeys(names, detail))
        wrong.kill()
    start_dns(lab, 1, right)
    expect(lab, "healthy", **healthy)


@scenario(start=False, hosts=2, services=[
    checked("ping", 0, {"type": "ping"}, "udp"),
    service("ping6", 9, protocol="udp", vips=(VIP4,), check={"type": "ping"},
            backends=[{"name": name, "address": backend_address(n, 6)} for n, name in enumerate(BACKENDS, 1)])])
def checks_by_ping(lab):
    """Ping checks detect a host that is down or does not reply, with raw sockets and with ping sockets"""
    down = dict.fromkeys(("ping", "ping6"), "no echo reply for 400 ms")
    up = dict.fromkeys(down, "echo reply")
    lab.start()
    expect(lab, "healthy", **up)
    lab.stop_host(1)
    expect(lab, "refusing", **down)
    lab.start_host(1)
    expect(lab, "healthy", **up)
    lab.lb.sysctl(net__ipv4__ping_group_range="0 2147483647")  # now ping sockets instead of raw sockets
    lab.programs["control"].kill()
    lab.start_control()
    expect(lab, "healthy", **up)
    lab.namespaces["b1"].sysctl(net__ipv4__icmp_echo_ignore_all=1)
    expect(lab, "refusing", ping=down["ping"])
    expect(lab, "healthy", ping6="echo reply")
