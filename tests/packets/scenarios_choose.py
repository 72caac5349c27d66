# SPDX-License-Identifier: BSD-3-Clause
"""Tests which backend is chosen for a packet, and the reason for the choice."""
import functools
from collections import Counter

from scapy.all import IP, IPv6, TCP, UDP

from lab import (CLIENT4, CLIENT6, VIP4, VIP6, config, expect, expect_equal, frame, frames_from,
                 service)
from outer import check_forwarded

SECOND = 10**9
FOUR = [f"10.0.0.{n}" for n in range(1, 5)]


@functools.cache
def segment(flags, data):
    return frame(IP(src=CLIENT4, dst=VIP4) / TCP(sport=1, dport=80, flags=flags) / data)


def flows(count, flags="S", first=0, data=b""):
    """Returns frames of TCP packets of `count` different flows."""
    return frames_from(
        segment(flags, data),
        [(f"203.0.{n >> 8 & 255}.{n & 255}", 1024 + n % 60000) for n in range(first, first + count)],
    )


def shares(run):
    counts = Counter(verdict.backend for verdict in run)
    return {name: count / len(run) for name, count in counts.items()}


def expect_share(run, name, wanted, tolerance=0.03):
    got = shares(run).get(name, 0)
    expect(abs(got - wanted) <= tolerance, f"share of {name}: got {got:.3f}, wanted {wanted:.3f}")


def test_packets_of_a_flow_stay_together(lab):
    packets = flows(50) + flows(50, "A") + flows(50, "PA") + flows(50, "FA") + flows(50, "A")
    run = lab.run(config(service(backends=FOUR)), packets)
    for n in range(50):
        verdicts = [run[n + turn * 50] for turn in range(5)]
        expect_equal(len({verdict.backend for verdict in verdicts}), 1, f"backends of flow {n}")
        expect_equal([verdict.why for verdict in verdicts], ["new"] + ["flow"] * 4, f"why of {n}")


def test_udp_and_ipv6_flows_stay_together(lab):
    packets = []
    for _ in range(3):
        packets += [
            IPv6(src=CLIENT6, dst=VIP6) / TCP(sport=n, dport=80, flags="A")
            for n in range(1000, 1030)
        ]
        packets += [
            IP(src=CLIENT4, dst=VIP4) / UDP(sport=n, dport=80) / b"x" for n in range(1000, 1030)
        ]
        packets += [
            IPv6(src=CLIENT6, dst=VIP6) / UDP(sport=n, dport=80) / b"x" for n in range(1000, 1030)
        ]
    run = lab.run(config(service(backends=FOUR)), packets)
    for n in range(90):
        expect_equal(len({run[n + turn * 90].backend for turn in range(3)}), 1, f"backends of {n}")
        expect_equal([run[n + turn * 90].why for turn in range(3)], ["new", "flow", "flow"], "why")


def test_tcp_and_udp_of_the_same_ports_are_two_flows(lab):
    packets = [
        IP(src=CLIENT4, dst=VIP4) / TCP(sport=5, dport=80, flags="S"),
        IP(src=CLIENT4, dst=VIP4) / UDP(sport=5, dport=80),
    ]
    run = lab.run(config(service(backends=FOUR)), packets)
    expect_equal([verdict.why for verdict in run], ["new", "new"], "why")


def test_reset_of_a_client_is_no_error_of_the_backend(lab):
    """A scanner answers each SYN ACK with an RST. The RST does not count as an error of the
    backend."""
    packets = [
        IP(src=CLIENT4, dst=VIP4) / TCP(sport=port, dport=80, flags=flags)
        for port, flags in ((1, "S"), (2, "S"), (2, "R"), (3, "S"), (3, "R"), (4, "S"))
    ]
    for policy in ("least-loaded", "power-of-two"):
        made = config(service(backends=FOUR[:2], policy={"name": policy}))
        run = lab.run(made, packets)
        busy, idle = run[0].backend, run[1].backend
        expect(busy != idle, f"{policy}: the second flow at {idle}")
        expect_equal([v.backend for v in run][2:], [idle] * 4, f"{policy}: backends")


def test_weights_are_honoured(lab):
    for weights, wanted in (
        ((100, 300), (0.25, 0.75)),
        ((1, 1, 2), (0.25, 0.25, 0.5)),
        ((65535, 65535), (0.5, 0.5)),
        ((5, 0, 15), (0.25, 0, 0.75)),
    ):
        backends = [(f"10.0.0.{n}", weight) for n, weight in enumerate(weights, 1)]
        run = lab.run(config(service(backends=backends)), flows(4000))
        for n, share in enumerate(wanted):
            expect_share(run, f"b{n}", share)


def test_run_time_weight_replaces_the_configured_one(lab):
    made = config(service(backends=[("10.0.0.1", 100), ("10.0.0.2", 100)]))
    run = lab.run(made, flows(4000), ["--weight", "web/b0=300"])
    expect_share(run, "b0", 0.75)
    run = lab.run(made, flows(500), ["--weight", "web/b0=0"])
    expect_equal(shares(run), {"b1": 1.0}, "shares")


def test_the_choice_is_the_same_on_every_run(lab):
    made = config(service(backends=FOUR))
    turned = config(service(backends=[{"name": f"b{n}", "address": FOUR[n]} for n in (2, 0, 3, 1)]))
    first = [verdict.backend for verdict in lab.run(made, flows(500))]
    expect_equal([verdict.backend for verdict in lab.run(made, flows(500))], first, "second run")
    expect_equal(
        [verdict.backend for verdict in lab.run(turned, flows(500))],
        first,
        "another order of backends",
    )
    seeded = config(service(backends=FOUR), instance={"name": "lb-1", "hash_seed": "0x63"})
    expect(
        [verdict.backend for verdict in lab.run(seeded, flows(500))] != first,
        "another seed, the same choice",
    )


def test_few_flows_move_when_a_backend_is_removed(lab):
    made = config(service(backends=FOUR))
    before = [verdict.backend for verdict in lab.run(made, flows(3000))]
    for option in ("--drain", "--down"):
        after = [verdict.backend for verdict in lab.run(made, flows(3000), [option, "web/b1"])]
        expect("b1" not in after, "a new flow went to b1")
        moved = sum(1 for old, new in zip(before, after) if old != new and old != "b1")
        expect(moved < 60, f"{moved} of 3000 flows moved between backends that stayed")
        for name in ("b0", "b2", "b3"):
            expect(abs(after.count(name) / 3000 - 1 / 3) < 0.04, f"share of {name}")


def test_drained_backend_is_the_last_resort(lab):
    made = config(service(backends=FOUR[:2]))
    # If one of two backends is down, the share of healthy backends equals the threshold of 50 %: no
    # panic.
    run = lab.run(made, flows(200), ["--down", "web/b0"])
    expect_equal(shares(run), {"b1": 1.0}, "shares with one down")
    # No backend is healthy: all backends are used, including the drained backend.
    run = lab.run(made, flows(400), ["--down", "web/b0", "--down", "web/b1"])
    expect_share(run, "b0", 0.5, 0.1)
    run = lab.run(made, flows(200), ["--down", "web/b0", "--drain", "web/b1"])
    expect_share(run, "b0", 0.5, 0.15)
    run = lab.run(made, flows(400), ["--drain", "web/b0", "--drain", "web/b1"])
    expect_share(run, "b0", 0.5, 0.1)


def test_no_backend_is_a_named_drop(lab):
    made = config(service(backends=FOUR[:2], panic_threshold_percent=0))
    run = lab.run(made, flows(10), ["--down", "web/b0", "--down", "web/b1"])
    for verdict in run:
        expect_equal(
            (verdict.action, verdict.reason, verdict.service),
            ("dropped", "no_backend", "web"),
            f"{verdict}",
        )
    run = lab.run(config(service(backends=[("10.0.0.1", 0)])), flows(3))
    expect_equal(run.totals["drops"], {"no_backend": 3}, "drops")


def test_half_open_flows_end_after_their_timeout(lab):
    syn, ack = flows(1)[0], flows(1, "A")[0]
    run = lab.run(
        config(service(backends=FOUR)),
        [
            syn,
            (4 * SECOND, syn),
            (6 * SECOND, syn),
            (SECOND, ack),
            (800 * SECOND, ack),
            (901 * SECOND, ack),
        ],
    )
    expect_equal(
        [verdict.why for verdict in run], ["new", "flow", "new", "flow", "flow", "new"], "why"
    )
    expect_equal(len({verdict.backend for verdict in run}), 1, "backends: the Maglev fallback")


def test_closing_flows_end_and_ports_are_reused(lab):
    syn, ack = flows(1)[0], flows(1, "A")[0]
    fin, rst = flows(1, "FA")[0], flows(1, "R")[0]
    run = lab.run(
        config(service(backends=FOUR)),
        [syn, ack, fin, (SECOND, ack), (SECOND, syn), ack, rst, (SECOND, syn)],
    )
    expect_equal(
        [verdict.why for verdict in run],
        ["new", "flow", "flow", "flow", "new", "flow", "flow", "new"],
        "why",
    )


def test_last_packets_of_unknown_flows_insert_no_entry(lab):
    run = lab.run(
        config(service(backends=FOUR)),
        flows(1, "FA") + flows(1, "R") + flows(1, "SA") + flows(1, "S"),
    )
    expect_equal([verdict.why for verdict in run], ["untracked"] * 3 + ["new"], "why")
    for verdict in run:
        check_forwarded(verdict, FOUR[int(verdict.backend[1])])


def test_udp_timeout(lab):
    packet = IP(src=CLIENT4, dst=VIP4) / UDP(sport=5, dport=80)
    run = lab.run(
        config(service(backends=FOUR)),
        [packet, packet, (29 * SECOND, packet), (31 * SECOND, packet)],
    )
    expect_equal([verdict.why for verdict in run], ["new", "flow", "flow", "new"], "why")


def test_configured_timeouts_are_used(lab):
    timeouts = {"syn_seen": 1000, "young": 2000, "established": 2000, "closing": 1000, "udp": 1000}
    made = config(
        service(backends=FOUR), flow_table={"flows_per_worker": 4096, "timeout_ms": timeouts}
    )
    syn, ack = flows(1)[0], flows(1, "A")[0]
    run = lab.run(made, [syn, (SECOND // 2, ack), (3 * SECOND // 2, ack), (5 * SECOND // 2, ack)])
    expect_equal([verdict.why for verdict in run], ["new", "flow", "flow", "new"], "why")


def test_syn_flood_evicts_no_established_flow(lab):
    made = config(service(backends=FOUR), flow_table={"flows_per_worker": 1024})
    good = flows(200) + flows(200, "A")
    flood = flows(5000, first=1000)
    run = lab.run(made, good + flood + flows(200, "PA"), step_ns=10_000)
    for n in range(200):
        last = run[len(good) + len(flood) + n]
        expect_equal(
            (last.why, last.backend), ("flow", run[n].backend), f"flow {n} after the flood"
        )
    for verdict in run:
        expect_equal(verdict.action, "forwarded", f"{verdict}")


def test_full_table_refuses_no_packet(lab):
    made = config(service(backends=FOUR), flow_table={"flows_per_worker": 1024})
    packets = flows(3000, "A")
    roomy = lab.run(config(service(backends=FOUR)), packets, step_ns=1000)
    tight = lab.run(made, packets, step_ns=1000)
    expect_equal(
        [verdict.backend for verdict in tight],
        [verdict.backend for verdict in roomy],
        "backends with a full table",
    )
    expect(any(verdict.why == "untracked" for verdict in tight), "the table was never full")


def test_services_do_not_mix(lab):
    services = [
        service(
            f"s{n}",
            [{"address": f"198.51.100.{n}", "protocol": "tcp", "port": 80}],
            [f"10.1.{n}.1", f"10.1.{n}.2"],
        )
        for n in range(1, 100)
    ]
    packets = [
        IP(src=CLIENT4, dst=f"198.51.100.{n}") / TCP(sport=7, dport=80) for n in range(1, 100)
    ]
    run = lab.run(config(*services), packets)
    for n, verdict in enumerate(run, 1):
        expect_equal(verdict.service, f"s{n}", "service")
        check_forwarded(verdict, f"10.1.{n}.{int(verdict.backend[1]) + 1}")


def test_one_backend_can_have_more_flows_than_full_nat_ports(lab):
    """Port numbers do not limit the flows of Weir. A full NAT can have at most 65,535 flows per
    backend and source address."""
    count = 70_000
    syns = {}
    for last in (7, 8):
        syn = IP(src=f"203.0.113.{last}", dst=VIP4) / TCP(sport=1, dport=80, flags="S")
        syns[last] = bytearray(frame(syn))
    packets = []
    for n in range(count):
        data = syns[7 + n % 2]
        data[34:36] = (1024 + n // 2).to_bytes(2, "big")
        packets.append(bytes(data))
    acks = [data[:47] + b"\x10" + data[48:] for data in packets[::100]]
    made = config(service(), flow_table={"flows_per_worker": 1 << 20})
    run = lab.run(made, packets + acks, step_ns=10_000)  # half-open flows end after 5 s
    expect_equal(Counter(v.why for v in run), {"new": count, "flow": len(acks)}, "why")
    for n in (0, 1, count // 2, count - 1):
        check_forwarded(run[n], "10.0.0.11")


def test_totals_by_backend(lab):
    run = lab.run(config(service(backends=FOUR)), flows(100) + flows(100, "A"))
    for backend in run.totals["backends"]:
        mine = [verdict for verdict in run if verdict.backend == backend["backend"]]
        expect_equal(
            (backend["packets"], backend["new_flows"]),
            (len(mine), sum(1 for verdict in mine if verdict.why == "new")),
            f"totals of {backend['backend']}",
        )


def test_affinity_keeps_clients_at_their_backend(lab):
    for policy in ("round-robin", "maglev"):
        made = config(service(backends=FOUR, policy={"name": policy}, affinity={}))
        clients = [f"203.0.113.{n}" for n in range(1, 60)]
        ports = [(client, port) for port in (1000, 2000) for client in clients]
        run = lab.run(made, frames_from(segment("S", b""), ports))
        backends = [verdict.backend for verdict in run]
        expect_equal(set(backends), {"b0", "b1", "b2", "b3"}, f"{policy}: backends")
        expect_equal(backends[: len(clients)], backends[len(clients) :], f"{policy}: clients")
