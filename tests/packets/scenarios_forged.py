# SPDX-License-Identifier: BSD-3-Clause
"""The effect of forged packets on the flow table and on clients."""
from scapy.all import IP, IPv6, TCP, UDP

from lab import VIP4, VIP6, config, expect, expect_equal, frames_from, service
from scenarios_choose import FOUR, SECOND, flows

MS = 1_000_000
TABLE = {"flows_per_worker": 1024}
POLICIES = ("maglev", "round-robin", "least-loaded", "weighted-round-robin",
            "interleaved-weighted-round-robin", "time-weighted-round-robin", "fair-share", "random",
            "power-of-two", "prequal")


def round_robin(**more):
    return service(backends=FOUR, policy={"name": "round-robin"}, **more)


def data(count, first=0):
    return flows(count, "PA", first, b"GET /")


def datagrams(count, first=0):
    return frames_from(
        IP(src="203.1.0.0", dst=VIP4) / UDP(sport=1, dport=80) / b"x",
        [(f"203.1.{n >> 8 & 255}.{n & 255}", 1024 + n % 60000) for n in range(first, first + count)],
    )


def tracked(run, first, count):
    return sum(1 for n in range(first, first + count) if run[n].why in ("new", "flow"))


def expect_together(run, *parts):
    """Check that the n-th packets of all parts went to the same backend. Each part is (number of
    the first packet, count)."""
    apart = sum(
        1
        for n in range(parts[0][1])
        if len({run[first + n].backend for first, _ in parts}) != 1
    )
    expect_equal(apart, 0, f"of {parts[0][1]} flows not at one backend")


def test_single_datagrams_leave_room_for_tcp(lab):
    forged = datagrams(3000)
    made = config(round_robin(), flow_table=TABLE)
    come = flows(200) + flows(200, "A") + data(200)
    run = lab.run(made, forged + come, step_ns=10_000)
    expect_together(run, (3000, 200), (3200, 200), (3400, 200))
    # After a second, half-open flows of possible handshakes may be evicted
    come[0] = (SECOND + 100 * MS, come[0])
    run = lab.run(made, forged + come, step_ns=10_000)
    expect(tracked(run, 3000, 200) > 120, f"{tracked(run, 3000, 200)} of 200 SYNs were tracked")
    expect_together(run, (3000, 200), (3200, 200), (3400, 200))
    # Half-open flows end after a few seconds; then SYNs are tracked again, as before the flood.
    run = lab.run(made, forged + [(6 * SECOND, flows(1)[0])] + flows(200, first=1), step_ns=10_000)
    expect_equal(tracked(run, 3001, 200), 200, "SYNs tracked after the flood")


def test_second_datagram_makes_a_udp_flow(lab):
    once, twice = datagrams(2)
    run = lab.run(
        config(round_robin()),
        [once, twice, twice, (6 * SECOND, once), twice, (25 * SECOND, twice), (31 * SECOND, twice)],
    )
    expect_equal(
        [verdict.why for verdict in run],
        ["new", "new", "flow", "new", "flow", "flow", "new"],
        "why",
    )


def test_handshakes_without_data_end_after_seconds(lab):
    syn, ack, get = flows(1), flows(1, "A"), data(1)
    made = config(round_robin())
    run = lab.run(made, syn + ack + [(9 * SECOND, get[0]), (800 * SECOND, get[0])])
    expect_equal([verdict.why for verdict in run], ["new"] + ["flow"] * 3, "why of a real one")
    run = lab.run(made, syn + ack + [(11 * SECOND, get[0])])
    expect_equal([verdict.why for verdict in run], ["new", "flow", "new"], "why without data")
    # The client sends data, or a second ACK, as after the greeting of a server
    for second in (get, ack + ack):
        run = lab.run(made, syn + second + [(800 * SECOND, get[0])])
        expect_equal(run[len(run) - 1].why, "flow", "reason for the choice of an idle connection")


def test_forged_handshakes_leave_room_for_clients(lab):
    forged = [packet for n in range(2000) for packet in (flows(1, "S", n)[0], flows(1, "A", n)[0])]
    clients = flows(200, first=5000) + flows(200, "A", 5000) + data(200, 5000)
    run = lab.run(config(round_robin(), flow_table=TABLE), forged + clients, step_ns=10_000)
    expect_equal(tracked(run, 4000, 600), 600, "packets of clients that were tracked")
    expect_together(run, (4000, 200), (4200, 200), (4400, 200))


def test_full_table_evicts_idle_connections_first(lab):
    """Half of 1,024 connections are in use. Then further connections start, both real and
    forged."""
    count = 1100  # for some connections the table has no free slot
    opened = [
        packet
        for n in range(count)
        for packet in (flows(1, "S", n)[0], flows(1, "A", n)[0], data(1, n)[0])
    ]
    used = [packet for n in range(0, count, 2) for packet in data(1, n)]
    used[0] = (60 * SECOND, used[0])
    come = [
        packet
        for n in range(5000, 5200)
        for packet in (flows(1, "S", n)[0], flows(1, "A", n)[0], data(1, n)[0])
    ]
    made = config(round_robin(), flow_table=TABLE)
    run = lab.run(made, opened + used + come + used[1:], step_ns=10_000)
    known = [run[3 * count + n].why == "flow" for n in range(count // 2)]
    start = 3 * count + count // 2
    expect(sum(known) > 450, f"{sum(known)} of 550 flows had an entry")
    expect(tracked(run, start, 600) > 480, f"{tracked(run, start, 600)} of 600 tracked")
    again = start + 600
    for n in range(1, count // 2):
        if known[n]:
            expect_equal(run[again + n - 1].why, "flow", f"connection {n}, which was in use")


def test_syn_and_ack_agree_during_a_syn_flood(lab):
    for policy in ("round-robin", "least-loaded", "random", "maglev"):
        made = config(service(backends=FOUR, policy={"name": policy}), flow_table=TABLE)
        flood = [flows(1000, first=n) for n in (10000, 20000)]
        packets = flood[0] + flows(100) + flood[1] + flows(100, "A") + data(100)
        run = lab.run(made, packets, step_ns=1000)
        expect_together(run, (1000, 100), (2100, 100), (2200, 100))


def test_handshakes_survive_the_start_of_a_flood(lab):
    """A flood fills the flow table after the SYNs of 100 clients, before their ACKs."""
    flood = flows(5000, first=10000)
    for policy in POLICIES:
        made = config(service(backends=FOUR, policy={"name": policy}), flow_table=TABLE)
        packets = flows(100) + flood + flows(100, "A") + data(100)
        packets[5100] = (900 * MS, packets[5100])
        run = lab.run(made, packets, step_ns=1000)
        expect_together(run, (0, 100), (5100, 100), (5200, 100))
        # After a second, handshakes may be evicted like other flows.
        late = flows(100) + flood + [(SECOND + 100 * MS, flows(1, first=20000)[0])] + flood
        run = lab.run(made, late + flows(100, "A"), step_ns=1000)
        known = sum(1 for n in range(10101, 10201) if run[n].why == "flow")
        expect(known < 20, f"{known} of 100 half-open flows outlast the flood")


def test_forged_syns_do_not_exclude_clients(lab):
    made = config(round_robin(flow_control={"max_active_flows": 20, "when_exhausted": "reject"}))
    again = flows(80)  # clients repeat a rejected SYN after a second
    again[0] = (SECOND, again[0])
    run = lab.run(
        made, flows(80, first=1000) + flows(80) + again + flows(80, "A") + flows(4, first=500)
    )
    for n in range(80):
        expect_equal(run[160 + n].action, "forwarded", f"second SYN of client {n}")
    for n in range(4):
        expect_equal(run[320 + n].reason, "flow_control", f"SYN {n} beyond the limit")


def test_forged_rst_moves_no_connection(lab):
    for silence in (12, 61, 600):
        packets = flows(40) + flows(40, "A") + data(40) + flows(40, "R") + data(40)
        packets[160] = (silence * SECOND, packets[160])
        run = lab.run(config(round_robin()), packets)
        expect_together(run, (0, 40), (160, 40))
        for n in range(40):
            expect_equal(run[160 + n].why, "flow", f"data after an RST and {silence} s")


def test_rst_and_port_reuse_start_a_new_flow(lab):
    run = lab.run(
        config(round_robin()),
        flows(1) + flows(1, "A") + data(1) + flows(1, "R") + flows(1) + flows(1, "A"),
    )
    expect_equal(
        [verdict.why for verdict in run], ["new", "flow", "flow", "flow", "new", "flow"], "why"
    )
    expect(run[4].backend != run[0].backend, "round robin did not choose again")
    expect_equal(run[5].backend, run[4].backend, "backend of the ACK")


def test_idle_half_closed_connection_stays(lab):
    packets = flows(40) + flows(40, "A") + data(40) + flows(40, "FA")
    for wait in (50, 40, 59):  # each ACK of the client refreshes the flow
        packets += [(wait * SECOND, flows(1, "A")[0])] + flows(39, "A", 1)
    packets += [(62 * SECOND, flows(1, "A")[0])]
    run = lab.run(config(round_robin()), packets)
    expect_together(run, (0, 40), (160, 40), (200, 40), (240, 40))
    expect_equal(run[279].why, "flow", "why")
    expect_equal(run[280].why, "new", "why after the timeout")


def test_ipv6_has_the_configured_room(lab):
    sources = [(f"2001:db8:c::{n + 1:x}", 2000) for n in range(900)]
    syns, acks = (
        frames_from(IPv6(src="2001:db8:c::", dst=VIP6) / TCP(dport=80, flags=flags), sources)
        for flags in "SA"
    )
    packets = [packet for three in zip(syns, acks, acks) for packet in three]
    for percent, wanted in ((25, 256), (80, 819)):
        made = config(round_robin(), flow_table={**TABLE, "ipv6_percent": percent})
        run = lab.run(made, packets, step_ns=1000)
        new = sum(1 for n in range(900) if run[3 * n].why == "new")
        expect(abs(new - wanted) <= wanted // 20, f"{percent} %: {new} flows, not {wanted}")
