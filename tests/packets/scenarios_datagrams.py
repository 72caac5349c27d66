# SPDX-License-Identifier: BSD-3-Clause
"""Services with "udp": "datagram": a backend is chosen for each datagram, and no flow is kept."""
import json

from scapy.all import (
    ICMP,
    ICMPv6DestUnreach,
    IP,
    IPerror,
    IPerror6,
    IPv6,
    IPv6ExtHdrFragment,
    Raw,
    TCP,
    UDP,
    UDPerror,
    fragment,
    fragment6,
)

from lab import CLIENT4, CLIENT6, VIP4, VIP6, config, expect, expect_equal, frames_from, service
from outer import check_forwarded

BACKENDS = [f"10.0.0.{n}" for n in range(1, 4)]
NAMES = ["b0", "b1", "b2"]


def dns(backends=BACKENDS, udp="datagram", policy="round-robin", **more):
    return config(service("dns", backends=backends, policy={"name": policy}, udp=udp, **more))


def query(port=5353, family=4, size=20):
    ip = IP(src=CLIENT4, dst=VIP4) if family == 4 else IPv6(src=CLIENT6, dst=VIP6)
    return ip / UDP(sport=port, dport=80) / Raw(b"q" * size)


def counts(run):
    """Returns the number of forwarded datagrams of each backend."""
    found = dict.fromkeys(NAMES, 0)
    for verdict in run:
        expect_equal((verdict.action, verdict.why), ("forwarded", "datagram"), f"{verdict}")
        check_forwarded(verdict, BACKENDS[NAMES.index(verdict.backend)])
        found[verdict.backend] += 1
    return found


def change(lab, made):
    path = lab.path("changed.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(made, out)
    return path


def test_datagrams_of_one_socket_are_spread(lab):
    for family in (4, 6):
        packets = [query(family=family)] * 300
        run = lab.run(dns(), packets)
        expect_equal(counts(run), dict.fromkeys(NAMES, 100), f"IPv{family}, round-robin")
        backends = {one["backend"]: one for one in run.totals["backends"]}
        expect_equal([backends[name]["new_flows"] for name in NAMES], [100] * 3, "new flows")
        for policy in ("random", "least-loaded", "power-of-two", "weighted-round-robin"):
            found = counts(lab.run(dns(policy=policy), packets))
            expect(min(found.values()) > 60, f"IPv{family}, {policy}: {found}")


def test_weights_apply_to_datagrams(lab):
    weighted = [(address, weight) for address, weight in zip(BACKENDS, (1, 2, 3))]
    run = lab.run(dns(backends=weighted, policy="weighted-round-robin"), [query()] * 600)
    expect_equal(counts(run), {"b0": 100, "b1": 200, "b2": 300}, "datagrams")


def test_maglev_sends_the_datagrams_of_a_socket_to_one_backend(lab):
    packets = [query(port) for port in range(1000, 1060)]
    run = lab.run(dns(policy="maglev"), packets * 2)
    found = counts(run)
    expect(min(found.values()) > 10, f"{found}")
    expect_equal([v.backend for v in run[:60]], [v.backend for v in run[60:]], "backends")


def test_affinity_sends_the_datagrams_of_a_client_to_one_backend(lab):
    for policy in ("round-robin", "maglev"):
        clients = [f"203.0.113.{n}" for n in range(1, 40)]
        packets = frames_from(query(), [(client, port) for port in (1000, 2000) for client in clients])
        run = lab.run(dns(policy=policy, affinity={}), packets)
        found = counts(run)
        expect(min(found.values()) > 5, f"{policy}: {found}")
        half = len(clients)
        expect_equal([v.backend for v in run[:half]], [v.backend for v in run[half:]], policy)


def test_connections_of_the_service_are_flows(lab):
    packets = [IP(src=CLIENT4, dst=VIP4) / TCP(sport=9, dport=80, flags=flags) for flags in "SAAA"]
    run = lab.run(dns(), [packets[0], query(), packets[1], query(), packets[2], query(), packets[3]])
    expect_equal([v.why for v in run], ["new", "datagram", "flow"] + ["datagram", "flow"] * 2, "why")
    expect_equal(len({v.backend for v in run[::2]}), 1, "backends of the connection")


def test_fragments_follow_their_first_fragment(lab):
    pieces = []
    for n in range(60):
        whole = IP(src=CLIENT4, dst=VIP4, id=n + 1) / UDP(sport=5353, dport=80) / Raw(b"q" * 2900)
        pieces += fragment(whole, 1400)
        whole = IPv6(src=CLIENT6, dst=VIP6) / IPv6ExtHdrFragment(id=n + 1) / UDP(
            sport=5353, dport=80) / Raw(b"q" * 2900)
        pieces += fragment6(whole, 1400)
    run = lab.run(dns(), pieces)
    found = counts(run)
    expect(min(found.values()) > 60, f"{found}")
    for n in range(0, len(pieces), 3):
        expect_equal(len({v.backend for v in run[n : n + 3]}), 1, f"backends of datagram {n // 3}")
    expect(len({v.backend for v in run[::3]}) == 3, "backends of all datagrams")


def test_reload_changes_flows_to_datagrams_and_back(lab):
    for family in (4, 6):
        sockets = [query(port, family) for port in (5001, 5002)]
        for delay in (10**6, 10**9, 3 * 10**9):
            packets = sockets * 2 + [(delay, sockets[0])] + sockets * 30
            run = lab.run(dns(udp="flow"), packets, ["--reload", f"{change(lab, dns())}@5"])
            expect_equal([v.why for v in run[:4]], ["new", "new", "flow", "flow"], "why, before")
            found = counts(run[4:])
            expect(max(found.values()) - min(found.values()) <= 1, f"IPv{family}, {delay} ns: {found}")
            run = lab.run(dns(), packets, ["--reload", f"{change(lab, dns(udp='flow'))}@5"])
            counts(run[:4])
            why = [v.why for v in run[4:]]
            expect_equal(why[:3], ["new", "flow", "new"], f"why, back to flows: {why}")
            expect_equal(set(why[3:]), {"flow"}, "why, back to flows")
            for n in range(2):
                rest = run[5 + n :: 2]
                expect_equal(len({v.backend for v in rest}), 1, f"backends of socket {n}")


def test_flows_of_other_services_stay_at_the_reload(lab):
    other = service("other", backends=BACKENDS, policy={"name": "round-robin"},
                    binds=[{"address": VIP4, "protocol": "udp", "port": 54}])
    before, after = dns(udp="flow"), dns()
    for made in (before, after):
        made["services"].append(other)
    kept = IP(src=CLIENT4, dst=VIP4) / UDP(sport=7, dport=54) / b"kept"
    packets = [kept, kept, query(), query()] + [kept, query()] * 9 + [(10**9, kept)] * 5
    run = lab.run(before, packets, ["--reload", f"{change(lab, after)}@5"])
    seen = [v for v in run if v.service == "other"]
    expect_equal([v.why for v in seen], ["new"] + ["flow"] * (len(seen) - 1), "why")
    expect_equal(len({v.backend for v in seen}), 1, "backends")


def test_drained_and_removed_backends_get_no_datagrams(lab):
    packets = [query()] * 90
    for option in ("--drain", "--down", "--maintenance"):
        run = lab.run(dns(), packets, [option, "dns/b1@31"])
        expect_equal(counts(run[:30]), dict.fromkeys(NAMES, 10), f"before {option}")
        expect_equal(counts(run[30:]), {"b0": 30, "b1": 0, "b2": 30}, f"after {option}")
    run = lab.run(dns(), packets, ["--reload", f"{change(lab, dns(backends=BACKENDS[:1]))}@31"])
    expect_equal(counts(run[30:]), {"b0": 60, "b1": 0, "b2": 0}, "removed")


def test_datagrams_without_a_backend_are_dropped(lab):
    zero = [(address, 0) for address in BACKENDS]
    run = lab.run(dns(backends=zero), [query()] * 3)
    expect_equal([(v.action, v.reason) for v in run], [("dropped", "no_backend")] * 3, "verdicts")


def test_full_flow_table_changes_nothing(lab):
    made = dns()
    made["flow_table"] = {"flows_per_worker": 1024, "half_open_percent": 10}
    first = IP(src=CLIENT4, dst=VIP4) / TCP(sport=1, dport=80, flags="S")
    flood = frames_from(first, [(f"198.18.{n // 200}.{1 + n % 200}", 1024 + n) for n in range(1500)])
    run = lab.run(made, flood + [query()] * 300)
    expect_equal(counts(run[1500:]), dict.fromkeys(NAMES, 100), "datagrams")


def error4(port):
    return (IP(src="192.0.2.254", dst=VIP4) / ICMP(type=3, code=3)
            / IPerror(src=VIP4, dst=CLIENT4) / UDPerror(sport=80, dport=port) / Raw(b"r" * 20))


def error6(port):
    return (IPv6(src="2001:db8:ff::1", dst=VIP6) / ICMPv6DestUnreach(code=4)
            / IPerror6(src=VIP6, dst=CLIENT6) / UDPerror(sport=80, dport=port) / Raw(b"r" * 20))


def test_errors_go_to_the_backend_of_the_hash(lab):
    for family, error in ((4, error4), (6, error6)):
        packets = []
        for port in range(1000, 1020):
            packets += [query(port, family), error(port)]
        run = lab.run(dns(policy="maglev"), packets)
        expect_equal([v.why for v in run], ["datagram", "untracked"] * 20, "why")
        expect_equal([v.backend for v in run[::2]], [v.backend for v in run[1::2]], "backends")
        run = lab.run(dns(), packets)
        expect_equal([v.why for v in run], ["datagram", "untracked"] * 20, "why")
