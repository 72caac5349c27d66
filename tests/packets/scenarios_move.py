# SPDX-License-Identifier: BSD-3-Clause
"""What becomes of flows whose backend is down, or takes no new flows."""
from scapy.all import IP, IPv6, TCP, UDP

from lab import CLIENT4, CLIENT6, VIP4, VIP6, config, expect, expect_equal, service
from outer import check_forwarded

SECOND = 10**9
FOUR = [f"10.0.0.{n}" for n in range(1, 5)]
DOWN = ("--down", "--maintenance")


def udp(port=5353, family=4):
    ip = IP(src=CLIENT4, dst=VIP4) if family == 4 else IPv6(src=CLIENT6, dst=VIP6)
    return ip / UDP(sport=port, dport=80) / b"query"


def tcp(flags, port=1025, family=4):
    ip = IP(src=CLIENT4, dst=VIP4) if family == 4 else IPv6(src=CLIENT6, dst=VIP6)
    return ip / TCP(sport=port, dport=80, flags=flags)


def of(**more):
    return config(service(backends=FOUR, **more))


def first_backend(lab, made, packet):
    return lab.run(made, [packet])[0].backend


def test_datagram_of_a_down_backend_moves_its_flow(lab):
    for family in (4, 6):
        for option in DOWN:
            query = udp(family=family)
            old = first_backend(lab, of(), query)
            run = lab.run(
                of(), [query] + [(20 * SECOND, query)] * 180, [option, f"web/{old}@10"]
            )
            expect_equal([v.backend for v in run[0:9]], [old] * 9, "backends before")
            expect_equal(run[9].why, "replaced", f"{option}: {run[9]}")
            expect(run[9].backend != old, f"{option}: {run[9]}")
            check_forwarded(run[9], FOUR[int(run[9].backend[1])])
            for verdict in run[10:]:
                expect_equal(
                    (verdict.backend, verdict.why), (run[9].backend, "flow"), f"{verdict}"
                )


def test_datagram_of_a_drained_backend_stays(lab):
    old = first_backend(lab, of(), udp())
    run = lab.run(of(), [udp()] * 3, ["--drain", f"web/{old}@2"])
    expect_equal([v.backend for v in run], [old] * 3, "backends")
    expect_equal([v.why for v in run], ["new", "flow", "flow"], "why")


def test_datagram_moves_with_every_policy(lab):
    for policy in ("round-robin", "least-loaded", "weighted-round-robin", "random"):
        made = of(policy={"name": policy})
        packets = [udp(n) for n in range(100)] * 3
        run = lab.run(made, packets, ["--down", "web/b1@101"])
        for n in range(100):
            before, moved, after = run[n], run[100 + n], run[200 + n]
            wanted = ("flow", before.backend) if before.backend != "b1" else ("replaced", None)
            expect_equal(moved.why, wanted[0], f"{policy}: {moved}")
            expect(moved.backend != "b1", f"{policy}: {moved}")
            expect(wanted[1] in (None, moved.backend), f"{policy}: {moved}")
            expect_equal((after.why, after.backend), ("flow", moved.backend), f"{policy}")


def test_syn_of_a_closed_backend_begins_a_flow_at_another(lab):
    for family in (4, 6):
        for option in DOWN + ("--drain",):
            syn = tcp("S", family=family)
            old = first_backend(lab, of(), syn)
            run = lab.run(
                of(),
                [syn, (SECOND, syn), (2 * SECOND, syn), tcp("A", family=family)],
                [option, f"web/{old}@2"],
            )
            expect_equal(
                [v.why for v in run], ["new", "replaced", "flow", "flow"], f"{option}: why"
            )
            expect(run[1].backend != old, f"{option}: {run[1]}")
            expect_equal({v.backend for v in run[1:]}, {run[1].backend}, f"{option}: backends")
            check_forwarded(run[1], FOUR[int(run[1].backend[1])])


def test_port_used_again_leaves_a_down_backend(lab):
    for option in DOWN:
        old = first_backend(lab, of(), tcp("S"))
        run = lab.run(of(), [tcp(f) for f in ("S", "A", "S", "A")], [option, f"web/{old}@3"])
        expect_equal([v.why for v in run], ["new", "flow", "replaced", "flow"], "why")
        expect(run[2].backend != old, f"{option}: {run[2]}")
        expect_equal(run[3].backend, run[2].backend, f"{option}: backend of the ACK")


def test_forged_syn_moves_no_flow_of_a_draining_backend(lab):
    old = first_backend(lab, of(), tcp("S"))
    run = lab.run(of(), [tcp(f) for f in ("S", "A", "S", "A")], ["--drain", f"web/{old}@3"])
    expect_equal([v.backend for v in run], [old] * 4, "backends")
    expect_equal([v.why for v in run], ["new", "flow", "flow", "flow"], "why")


def test_flow_stays_where_nobody_else_is(lab):
    made = config(service(backends=FOUR[:1], panic_threshold_percent=0))
    for packet in (udp(), tcp("S")):
        run = lab.run(made, [packet] * 3, ["--down", "web/b0@2"])
        expect_equal([v.backend for v in run], ["b0"] * 3, "backends")
        expect_equal([v.why for v in run], ["new", "flow", "flow"], "why")


def test_flow_stays_in_panic(lab):
    """Checks may be wrong: with all of them failing, all backends are used as before."""
    made = of(policy={"name": "round-robin"})
    options = [word for n in range(4) for word in ("--down", f"web/b{n}@41")]
    packets = [udp(n) for n in range(20)] + [tcp("S", n) for n in range(1, 21)]
    run = lab.run(made, packets * 2, options)
    for n in range(40):
        expect_equal(
            (run[40 + n].why, run[40 + n].backend), ("flow", run[n].backend), f"{run[40 + n]}"
        )
