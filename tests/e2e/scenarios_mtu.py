# SPDX-License-Identifier: BSD-3-Clause
"""ICMP messages from routers (path MTU and redirects), and fragmented datagrams."""
import contextlib
import os
import socket
import struct
import threading
import time

import clients
from lab import VIP4, VIP6, echo, make_random_file, upload, web
from netns import wait_for
from scenario import scenario
from scenarios_ports import start_with_tap

NARROW = 1400
ONE = {"web-1": 100}
MEGABYTES = 100


def narrow_path(lab, mtu=NARROW):
    """Move b1 behind the router, on a separate link with this MTU."""
    backend, net = lab.namespaces["b1"], lab.net
    net.ip("link", "set", "b1", "nomaster")
    net.ip("link", "set", "b1", "mtu", mtu)
    backend.ip("link", "set", "eth0", "mtu", mtu)
    net.sysctl(net__ipv4__icmp_ratelimit=0, net__ipv6__icmp__ratelimit=0)
    for family, own, router, subnet, bits in (
            ("-4", "10.0.0.11", "10.0.0.1", "10.0.0.0/24", 32),
            ("-6", "2001:db8:a::11", "2001:db8:a::1", "2001:db8:a::/64", 128)):
        net.ip(family, "route", "replace", f"{own}/{bits}", "dev", "b1")
        lab.lb.ip(family, "route", "replace", f"{own}/{bits}", "via", router)
        backend.ip(family, "route", "del", subnet, "dev", "eth0")
        backend.ip(family, "route", "replace", f"{router}/{bits}", "dev", "eth0")
        backend.ip(family, "route", "replace", "default", "via", router)
    net.sysctl(net__ipv6__conf__b1__proxy_ndp=1)
    net.ip("-6", "neigh", "replace", "proxy", "2001:db8:a::1", "dev", "b1")
    for namespace in (net, lab.lb, backend):
        namespace.ip("neigh", "flush", "all")


def backends(family):
    address = "10.0.0.11" if family == 4 else "2001:db8:a::11"
    return [{"name": "web-1", "address": address, "weight": 100}]


def send_datagram(lab, host, size, df):
    """Send a datagram to the echo service. Returns False if the echo does not arrive."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with lab.client.inside():
        sock = socket.socket(family, socket.SOCK_DGRAM)
    with contextlib.closing(sock):
        sock.settimeout(1)
        if family == socket.AF_INET:
            # Option IP_MTU_DISCOVER (10): IP_PMTUDISC_WANT (1) sets DF on packets that fit the path MTU.
            # IP_PMTUDISC_OMIT (5) never sets DF, and ignores ICMP messages about the path MTU.
            sock.setsockopt(socket.IPPROTO_IP, 10, 1 if df else 5)
        sock.connect((host, 9000))
        payload = os.urandom(size)
        with contextlib.suppress(TimeoutError, OSError):
            sock.send(payload)
            return sock.recv(1 << 17) == b"web-1 " + payload
    return False


def go_through(lab, family):
    digest = make_random_file(lab.dir + "/upload", MEGABYTES << 20)
    wanted = make_random_file(lab.files + "/big", MEGABYTES << 20)
    for vip in (VIP4, VIP6):
        name, received, seen = clients.send_file(lab.client, vip, lab.dir + "/upload")
        assert (name, received, seen) == ("web-1", MEGABYTES << 20, digest), (vip, received)
        download = clients.Download(lab.client, vip, "/files/big")
        got = download.finish()
        assert got == (0, MEGABYTES << 20, wanted), (vip, got, wanted)
        for size in (1400, 1472, 8000, 65000):
            for df in (False, True):
                # The answer to the first datagram may be an ICMP error "too big".
                wait_for(f"{size} bytes to {vip} with{'' if df else 'out'} DF over IPv{family}",
                         lambda v=vip, s=size, d=df: send_datagram(lab, v, s, d), 15)
    workers = lab.api("worker.show")
    assert sum(w["fragmented"] for w in workers) > 0, workers
    assert "path MTU to" in lab.programs["control"].output()


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def error4(source, backend, mtu, code=4, protocol=4):
    """Returns an ICMP error about a tunnel packet."""
    quoted = struct.pack("!BBHHHBBH4s4s8x", 0x45, 0, 1520, 0, 0x4000, 64, protocol, 0,
                         socket.inet_aton(source), socket.inet_aton(backend))
    error = struct.pack("!BBHHH", 3, code, 0, 0, mtu) + quoted
    return error[:2] + struct.pack("!H", checksum(error)) + error[4:]


def error6(source, backend, mtu):
    quoted = struct.pack("!IHBB16s16s8x", 6 << 28, 1500, 4, 64,
                         *(socket.inet_pton(socket.AF_INET6, each) for each in (source, backend)))
    return struct.pack("!BBHI", 2, 0, 0, mtu) + quoted


@contextlib.contextmanager
def icmp_socket(lab, family=socket.AF_INET):
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    with lab.client.inside():
        sock = socket.socket(family, socket.SOCK_RAW, protocol)
    with contextlib.closing(sock):
        yield sock


def send_error(lab, source, backend, mtu):
    """As a client, send a forged "fragmentation needed" about a tunnel packet."""
    with icmp_socket(lab) as sock:
        sock.sendto(error4(source, backend, mtu), ("10.0.0.2", 0))


@contextlib.contextmanager
def flood_of_errors(lab, errors, per_second=4000):
    """Send ICMP errors to the balancer continuously, while other code runs."""
    end = threading.Event()

    def send():
        start, sent = time.monotonic(), 0
        while not end.wait(0.001):
            while sent < (time.monotonic() - start) * per_second:
                sock.sendto(errors[sent % len(errors)], ("10.0.0.2", 0))
                sent += 1

    with icmp_socket(lab) as sock:
        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


@scenario(services=[web(), upload({"web-2": 100})])
def forged_path_mtu_is_bounded(lab):
    """ICMP errors about other packets change nothing; the path MTU is at least 576; the MTU of a route is used"""
    send_error(lab, "10.0.0.3", "10.0.0.11", 1300)  # the source is not the balancer's
    send_error(lab, "10.0.0.2", "10.0.0.99", 1300)  # the destination is not a backend
    send_error(lab, "10.0.0.2", "10.0.0.12", 68)
    log = lab.programs["control"].output
    wait_for("path MTU of web-2", lambda: "web-2: path MTU to 10.0.0.12 is 576" in log(), 5)
    assert log().count("path MTU to 10.0.0.12 is 576") == log().count("path MTU to") > 0, log()
    digest = make_random_file(lab.dir + "/upload", 1 << 20)
    for vip in (VIP4, VIP6):
        assert clients.send_file(lab.client, vip, lab.dir + "/upload", timeout=10) \
            == ("web-2", 1 << 20, digest), vip
    with icmp_socket(lab) as sock:  # the smallest MTU applies, whatever follows the quoted IP header in the error
        for mtu in (1300, 1450, 1400):
            sock.sendto(error4("10.0.0.2", "10.0.0.14", mtu), ("10.0.0.2", 0))
    wait_for("path MTU of web-4", lambda: "web-4: path MTU to 10.0.0.14 is 1300" in log(), 3)
    lab.lb.ip("route", "replace", "10.0.0.13/32", "dev", "lb0", "mtu", 1450)
    wait_for("MTU of the route", lambda: "web-3: path MTU to 10.0.0.13 is 1450" in log(), 5)
    assert lab.backend("web-3")["path_mtu"] == 1450, lab.backend("web-3")
    before = log().count("path MTU to 10.0.0.14")
    lab.write_config()
    lab.api("config.reload")
    lab.lb.ip("route", "del", "10.0.0.13/32", "dev", "lb0")
    wait_for("MTU of the port", lambda: "web-3: path MTU to 10.0.0.13 is the MTU of the port again"
             in log(), 5)
    assert log().count("path MTU to 10.0.0.14") == before, log()  # the reload has not changed it
    result = clients.curl_batch(lab.client, VIP4, 50)
    assert result.ok == 50, result.errors[:5]


@scenario(services=[web([{"name": "web-1", "address": "10.0.0.11"},
                         {"name": "web-2", "address": "2001:db8:a::12"}])])
def path_mtu_is_detected_in_a_flood_of_errors(lab):
    """A router's ICMP errors are processed among thousands of unrelated errors per second"""
    errors = [error4("10.0.0.2", "10.0.0.99", 1300), error4("10.0.0.2", "10.0.0.12", 0, 3, 17)]
    log = lab.programs["control"].output
    with flood_of_errors(lab, errors):
        time.sleep(1)
        send_error(lab, "10.0.0.2", "10.0.0.11", 1400)
        with icmp_socket(lab, socket.AF_INET6) as sock:
            sock.sendto(error6("2001:db8:a::2", "2001:db8:a::12", 1400), ("2001:db8:a::2", 0))
        wait_for("path MTUs", lambda: log().count("is 1400") == 2, 3)


def send_redirect(lab, gateway):
    """Send a forged ICMP redirect that names `gateway` as the next hop to b1. Its source is the router of
    narrow_path()."""
    from scapy.all import ICMP, IP, Ether  # this import takes half a second
    inner = IP(src="10.0.0.2", dst="10.0.0.11") / ICMP(type=8)
    packet = Ether(src=lab.mac(lab.net, "br0"), dst=lab.mac(lab.lb, "lb0")) / \
        IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(type=5, code=1, gw=gateway) / inner
    with lab.namespaces["b2"].inside():
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with contextlib.closing(sock):
        sock.bind(("eth0", 0))
        sock.send(bytes(packet))


@scenario(start=False, services=[web(backends(4))], hosts=2)
def redirects_are_followed_no_longer_than_by_the_kernel(lab):
    """Weir follows a forged redirect only as long as the kernel does (some minutes)"""
    narrow_path(lab, 1600)
    lab.lb.sysctl(net__ipv4__conf__all__accept_redirects=1)
    lab.start()

    def redirected():
        send_redirect(lab, "10.0.0.12")
        return "redirected" in lab.lb.ip("route", "get", "10.0.0.11")
    wait_for("redirect", redirected, 30, 0.3)
    lab.lb.ip("route", "add", "10.9.9.0/24", "via", "10.0.0.1")  # makes Weir query the routes again
    wait_for("backend to fail", lambda: lab.backend("web-1")["health"] == "refusing", 10)
    time.sleep(1)
    assert clients.curl_batch(lab.client, VIP4, 1, timeout=1).ok == 0
    lab.lb.ip("route", "flush", "cache")  # otherwise the kernel discards the redirect after five minutes
    wait_for("backend to recover", lambda: lab.backend("web-1")["health"] == "healthy", 10)
    wait_for("requests to succeed",
             lambda: clients.curl_batch(lab.client, VIP4, 5, timeout=1).ok == 5, 15)


@scenario(start=False, services=[web(backends(4)), upload(backends(4)), echo(backends(4))], hosts=1)
def narrow_tunnel_path_ipv4(lab):
    """100 MB each way and datagrams of 64 KB pass an IPv4 tunnel path with an MTU of 1,400 bytes"""
    narrow_path(lab)
    lab.start()
    go_through(lab, 4)


@scenario(start=False, services=[web(backends(6)), upload(backends(6)), echo(backends(6))], hosts=1)
def narrow_tunnel_path_ipv6(lab):
    """100 MB each way and datagrams of 64 KB pass an IPv6 tunnel path with an MTU of 1,400 bytes"""
    narrow_path(lab)
    lab.start()
    go_through(lab, 6)


# --- IPv6 fragments that start with an extension header -------------------------------------

def pieces_behind(header, payload, port):
    """Returns the fragments of a datagram from the client. The fragmentable part of the datagram starts
    with an extension header. Each fragment fits the path MTU. The kernel cannot send such fragments,
    because it puts these headers before the fragment header."""
    from scapy.all import IPv6, IPv6ExtHdrFragment, Raw, UDP, fragment6
    whole = (IPv6(src="2001:db8:c::2", dst=VIP6) / IPv6ExtHdrFragment(id=port) / header
             / UDP(sport=port, dport=9000) / Raw(payload))
    return [bytes(piece) for piece in fragment6(whole, 1280)]


def forwarded(lab):
    return sum(w["forwarded"] for w in lab.api("worker.show"))


def answered(raw, receiver, header, size):
    """Send a datagram in the fragments of pieces_behind(). Returns whether the backend answers it."""
    payload = os.urandom(size)
    for piece in pieces_behind(header, payload, receiver.getsockname()[1]):
        raw.sendto(piece, (VIP6, 0, 0, 0))
    with contextlib.suppress(TimeoutError):
        return receiver.recv(1 << 17) == b"web-1 " + payload
    return False


def fragments_follow_the_first(lab):
    from scapy.all import AH, IPv6ExtHdrDestOpt, IPv6ExtHdrRouting, PadN
    options = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)])
    with lab.client.inside():
        raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
        receiver = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with contextlib.closing(raw), contextlib.closing(receiver):
        receiver.bind(("2001:db8:c::2", 4000))
        receiver.settimeout(1)
        for header in (options, IPv6ExtHdrRouting(type=2, segleft=0) / options):
            # The backend learns the path MTU for its answers from the first datagram.
            wait_for("fragments answered", lambda h=header: answered(raw, receiver, h, 5000), 15)
        # Check only that AH fragments are forwarded: without the security association, the
        # backend cannot answer them.
        before = forwarded(lab)
        header = AH(nh=17, payloadlen=4, spi=7, seq=1, icv=b"0" * 12)
        pieces = pieces_behind(header, os.urandom(5000), 4001)
        for piece in pieces:
            raw.sendto(piece, (VIP6, 0, 0, 0))
    wait_for(f"all {len(pieces)} fragments with an authentication header forwarded",
             lambda: forwarded(lab) >= before + len(pieces), 5)
    wrong = {k: v for k, v in lab.drops().items() if k.startswith("fragment") or k == "ipv6_extension"}
    assert not wrong, wrong


@scenario(services=[echo(backends=ONE)])
def ipv6_fragments_with_options(lab):
    """IPv6 fragments that start with an extension header reach the backend of the first fragment (AF_XDP)"""
    fragments_follow_the_first(lab)


@scenario(start=False, lb_mtu=1500, services=[echo(backends=ONE)])
def ipv6_fragments_with_options_tap(lab):
    """IPv6 fragments that start with an extension header reach the backend of the first fragment (tap, not steered)"""
    start_with_tap(lab)
    fragments_follow_the_first(lab)
