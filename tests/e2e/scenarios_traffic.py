# SPDX-License-Identifier: BSD-3-Clause
"""Traffic arrives complete, and at the right backend."""
import re
import socket
import struct

import clients
from lab import (BACKENDS, VIP4, VIP6, backend_address, echo, lines, make_random_file, upload, web)
from netns import sh, wait_for
from scenario import scenario


def all_served(result, count, backends=BACKENDS):
    assert result.failed == 0, f"{result.failed} of {count} failed: {result.errors[:5]}"
    assert result.ok == count, f"{result.ok} of {count} answered"
    assert set(result.served) == set(backends), f"served by {dict(result.served)}"


@scenario(short=True)
def http_over_ipv4(lab):
    """curl makes 200 requests to the IPv4 VIP; every backend serves some"""
    all_served(clients.curl_batch(lab.client, VIP4, 200), 200)
    wait_for("200 flows counted",
             lambda: sum(b["new_flows"] for b in lab.backends()) == 200, 2)


@scenario()
def http_over_ipv6(lab):
    """curl makes 200 requests to the IPv6 VIP; every backend serves some"""
    all_served(clients.curl_batch(lab.client, VIP6, 200), 200)


@scenario(short=True)
def backends_see_address_and_port_of_the_client(lab):
    """Each backend logs the client's address and port, IPv4 and IPv6, without PROXY protocol or TOA"""
    for vip, client in ((VIP4, "192.0.2.2"), (VIP6, "2001:db8:c::2")):
        asked = set()
        while asked != set(BACKENDS):
            connection = clients.KeepAlive(lab.client, vip)
            name, body = connection.get("/client")
            assert body.decode().split() == [client, str(connection.port())], (name, body)
            connection.close()
            asked.add(name)


@scenario(short=True, services=[web(backends=[
    {"name": "web-1", "address": backend_address(1, 4)},
    {"name": "web-2", "address": backend_address(2, 6)},
    {"name": "web-3", "address": backend_address(3, 4)},
    {"name": "web-4", "address": backend_address(4, 6)}])])
def ipip_all_four_mixes(lab):
    """IPv4 and IPv6 VIPs in front of IPv4 and IPv6 backends"""
    for vip in (VIP4, VIP6):
        all_served(clients.curl_batch(lab.client, vip, 100), 100)


@scenario(short=True, services=[echo()])
def udp_flow_stays_on_its_backend(lab):
    """Each of 80 UDP sessions of 20 datagrams stays at its first backend; every backend gets some sessions"""
    for vip in (VIP4, VIP6):
        seen = set()
        for _ in range(40):
            session = clients.Udp(lab.client, vip)
            first = session.ask()
            seen.add(first)
            for _ in range(19):
                assert session.ask() == first, "a UDP session moved"
            session.close()
        assert seen == set(BACKENDS), seen


@scenario(short=True)
def download_1mb(lab):
    """1 MB downloads from every backend arrive intact, IPv4 and IPv6"""
    digest = lab.make_file("1mb", 1 << 20)
    for vip in (VIP4, VIP6):
        seen = set()
        for _ in range(100):
            download = clients.Download(lab.client, vip, "/files/1mb")
            seen.add(download.backend())
            assert download.finish() == (0, 1 << 20, digest)
            download.stop()
            if seen == set(BACKENDS):
                break
        assert seen == set(BACKENDS), f"100 downloads from {vip} came from {seen} alone"


@scenario()
def download_1gb(lab):
    """A 1 GB download arrives intact: its ACKs pass the balancer"""
    size = 1 << 30
    digest = lab.make_file("1gb", size)
    download = clients.Download(lab.client, VIP4, "/files/1gb")
    assert download.finish() == (0, size, digest)
    download.stop()


@scenario(services=[upload()])
def upload_256mb(lab):
    """256 MB uploads, which pass the balancer, arrive intact (IPv4, then IPv6)"""
    size = 256 << 20
    path = lab.dir + "/upload"
    digest = make_random_file(path, size)
    for vip in (VIP4, VIP6):
        name, received, seen = clients.send_file(lab.client, vip, path)
        assert (received, seen) == (size, digest), f"{name} got {received} bytes, {seen}"


@scenario(alone=True)
def wrk_200_connections(lab):
    """wrk with 200 concurrent connections has no errors in 5 s"""
    with lab.client.inside():
        out = sh("wrk", "-t", "2", "-c", "200", "-d", "5s", "--timeout", "5s", "--latency",
                 f"http://{VIP4}/")
    assert "Socket errors" not in out and "Non-2xx" not in out, out
    done = int(re.search(r"(\d+) requests in", out).group(1))
    assert done > 1000, out
    assert not lab.drops(), lab.drops()


@scenario()
def wrk_new_connections(lab):
    """wrk with 64 clients and a new connection for each request has no errors in 5 s"""
    with lab.client.inside():
        out = sh("wrk", "-t", "2", "-c", "64", "-d", "5s", "--timeout", "5s", "-H",
                 "Connection: close", f"http://{VIP4}/")
    assert "Non-2xx" not in out, out
    # Read errors are ignored, because they do not come from the balancer: some versions of wrk
    # count a read error when the server closes a finished connection.
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    assert not errors or (errors.group(1), errors.group(3), errors.group(4)) == ("0", "0", "0"), out
    assert int(re.search(r"(\d+) requests in", out).group(1)) > 500, out


@scenario(short=True)
def echo_request_to_vip_is_answered(lab):
    """The balancer answers pings to the VIPs, and does not reply for other addresses"""
    for vip in (VIP4, VIP6):
        out = lab.client.run("ping", "-c", "5", "-i", "0.1", "-W", "2", vip)
        assert " 0% packet loss" in out, out
    wait_for("10 answers counted",
             lambda: sum(w["replied"] for w in lab.api("worker.show")) == 10, 2)


@scenario(short=True, lb_mtu=1500, services=[upload(), web()])
def too_big_packet_is_reported(lab):
    """If a packet has no room for the outer header, the client gets an ICMP error and sends smaller packets"""
    path = lab.dir + "/upload"
    size = 2 << 20
    digest = make_random_file(path, size)
    for vip, family in ((VIP4, "-4"), (VIP6, "-6")):
        name, received, seen = clients.send_file(lab.client, vip, path, timeout=30)
        assert (received, seen) == (size, digest), f"{name} got {received} bytes, {seen}"
        route = lab.client.ip(family, "route", "get", vip)
        assert "mtu 1480" in route, f"the client has no path MTU: {route}"
    assert lab.drops().get("mtu_exceeded", 0) >= 2, lab.drops()


@scenario()
def own_address_stays_with_the_kernel(lab):
    """TCP connections (like ssh) and pings to the balancer's own address reach its kernel"""
    for family, address in ((socket.AF_INET, "10.0.0.2"), (socket.AF_INET6, "2001:db8:a::2")):
        with lab.lb.inside():
            listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, 22))
        listener.listen()
        with lab.client.inside():
            client = socket.create_connection((address, 22), 5)
        listener.settimeout(5)
        server, _ = listener.accept()
        client.sendall(b"SSH-2.0-test\r\n")
        assert server.recv(64) == b"SSH-2.0-test\r\n"
        for sock in (client, server, listener):
            sock.close()
        assert " 0% packet loss" in lab.client.run("ping", "-c", "2", "-i", "0.1", address)
    result = clients.curl_batch(lab.client, VIP4, 20)
    assert result.ok == 20, result.errors


@scenario(services=[lines()])
def port_without_service_is_not_served(lab):
    """Packets to a VIP's port without a service never reach a backend"""
    with lab.client.inside():
        sock = socket.socket()
        sock.settimeout(0.5)
    try:
        sock.connect((VIP4, 80))  # nginx listens on this port on every backend, but no service uses the port
        raise AssertionError("connected to port 80, which no service has")
    except OSError:
        pass
    finally:
        sock.close()
    assert clients.Line(lab.client, VIP4).backend in BACKENDS


@scenario(services=[lines()])
def idle_connection_survives(lab):
    """A connection that sends only TCP keepalive probes stays on its backend"""
    line = clients.Line(lab.client, VIP4)
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    before = sum(b["packets"] for b in lab.backends())
    wait_for("keepalive probes at the balancer",
             lambda: sum(b["packets"] for b in lab.backends()) >= before + 2, 10, 0.2)
    assert line.ask() == line.backend
    line.close()


@scenario(services=[lines()],
          config={"flow_table": {"flows_per_worker": 65536,
                                 "timeout_ms": {"closing": 1000, "established": 2000}}})
def reset_ends_the_flow(lab):
    """After a client's RST, the flow expires when its timeout has passed, and is counted as refused"""
    line = clients.Line(lab.client, VIP4)
    wait_for("the flow to be counted",
             lambda: sum(c["active_flows"] for c in lab.api("flow.count")) == 1)
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()
    wait_for("the flow to end",
             lambda: sum(c["active_flows"] for c in lab.api("flow.count")) == 0, 5)
    assert sum(b["refused"] for b in lab.backends()) == 1, lab.backends()
