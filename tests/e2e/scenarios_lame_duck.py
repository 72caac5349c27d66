# SPDX-License-Identifier: BSD-3-Clause
"""How soon a lame duck stops getting new flows, with weir-agent, weir-control and weir-dataplane.
Times are from the kernel's timestamps of packets.

WEIR_TRIALS sets the number of trials for each case (default 5). Results are the median, the 99th percentile
and the largest value, in milliseconds.
"""
import contextlib
import json
import os
import random
import socket
import subprocess
import time
from collections import namedtuple

from agent import ANSWER, ANSWER_FIELDS, HEADER, PROBE, PROBE_FIELDS, WORDS
from agents import Agents
from lab import VIP4, service
from netns import sh, wait_for
from scenario import scenario
from taps import Tap, stamping

TRIALS = int(os.environ.get("WEIR_TRIALS", "5"))
PORT, SYN = 4777, 2
AGENT = {"interval_ms": 100, "inactive_interval_ms": 600, "timeout_ms": 80}
PORTS = {"unchecked": 7000, "checked": 80}
EVENLY_S = 0.005  # after the notice, at least a fifth of the expected flows arrive within this time
TRIES = 5  # attempts for each trial: a trial in which the lab waited for a CPU is invalid
FLOWS_PER_SECOND = 10000  # nine of ten flows go to web-1: one every 0.11 ms
QUICK = {"flow_table": {"flows_per_worker": 262144, "timeout_ms": {"syn_seen": 300}}}


def of_two(name, **more):
    return service(name, PORTS[name], backends={"web-1": 900, "web-2": 100}, vips=(VIP4,),
                   policy={"name": "weighted-round-robin"}, agent=AGENT, **more)


SERVICES = [of_two("unchecked"), of_two("checked", check={"type": "http", "path": "/healthz"})]

# One announcement of a state. All values are in seconds, except flows.
# last: from the moment when the agent sends its notice to the last new flow at the backend
# flows: number of new flows in that time
# trip: from the notice until the probe that acknowledges it reaches the backend
# control: the part of trip between receiving and sending at the balancer's device
# trips: round-trip times of other probes, measured at the balancer
# published: duration of the publication of the announced state
Trial = namedtuple("Trial", "last flows trip control trips published")


def fields_of(packet, kind, fields):
    """Returns the fields of a datagram of this kind from or to an agent; None for any other packet."""
    if packet.protocol != socket.IPPROTO_UDP or PORT not in (packet.source, packet.destination) \
            or HEADER.unpack_from(packet.data)[2] != kind:
        return None
    return fields.unpack_from(packet.data, HEADER.size)


def find_word(packets):
    """Returns (time, serial) of the first unsolicited answer with lame-duck, or (None, None)."""
    for packet in packets:
        answer = fields_of(packet, ANSWER, ANSWER_FIELDS)
        if answer and answer[-3] == WORDS["lame-duck"] and answer[-2]:
            return packet.at, answer[4]
    return None, None


def acknowledged(packets, serial):
    """Returns the time of the first probe that acknowledges this serial number, or None."""
    probes = ((packet.at, fields_of(packet, PROBE, PROBE_FIELDS)) for packet in packets)
    return next((at for at, probe in probes if probe and probe[6] == serial), None)


def arrivals(packets, port, since):
    """Returns the arrival times of new flows after `since`, in seconds since then."""
    return [packet.at - since for packet in packets if not packet.sent and packet.flags == SYN
            and packet.to == VIP4 and packet.destination == port and packet.at > since]


def judge(there, elsewhere, here, port, published):
    """Returns a Trial, computed from the packets at the devices of the backend, the other backend
    and the balancer. Returns None if no new flows arrived, or if the balancer sent nothing until the
    agent removed it: in both cases the lab waited for a CPU."""
    said, serial = find_word(there)
    arrived, _ = find_word(here)
    if not arrived or not acknowledged(there, serial):
        return None
    late = arrivals(there, port, said)
    if sum(after < EVENLY_S for after in late + arrivals(elsewhere, port, said)) \
            < EVENLY_S * FLOWS_PER_SECOND / 5:
        return None
    asked, trips = {}, []
    for packet in here:
        probe = fields_of(packet, PROBE, PROBE_FIELDS)
        answer = fields_of(packet, ANSWER, ANSWER_FIELDS)
        if probe:
            asked[probe[2]] = packet.at
        elif answer and not answer[-2] and answer[2] in asked:
            trips.append(packet.at - asked[answer[2]])
    return Trial(max(late, default=0), len(late), acknowledged(there, serial) - said,
                 acknowledged(here, serial) - arrived, trips, published)


class Pond:
    """The lab, with agents on web-1 and optionally other hosts. ports: {service: port}."""

    def __init__(self, lab, ports, hosts=(1,)):
        self.lab, self.stamping = lab, stamping()
        options = [word for port in ports.values() for word in ("--port", str(port))]
        self.agents = Agents(lab, *options)
        lab.extra = {**lab.extra, **Agents.configuration(lab)}
        lab.write_config()
        lab.start_backends()
        for number in hosts:
            self.agents.start(number)
        lab.start_dataplane()
        lab.start_control()
        lab.wait_ready()
        for name in ports:
            self.agents.wait_answered([1], name)
        self.mac = lab.mac(lab.lb, "lb0")
        self.place("control", False)
        self.place(self.agents.name(1), True)

    def place(self, program, with_worker):
        """Set the CPUs of a program. With few CPUs, the agent and weir-control must not wait for
        each other, because in production they run on different hosts."""
        cores = {core for core in os.sched_getaffinity(0) if (core == self.lab.core) == with_worker}
        if cores:
            os.sched_setaffinity(self.lab.programs[program].pid, cores)

    def command(self, *words):
        return (self.lab.binary("weir-agent"), *words, "--run-dir", self.agents.run_dir(1))

    def run(self, *words):
        with self.lab.namespaces["b1"].inside():
            return sh(*self.command(*words))

    def interval_ms(self):
        balancers = json.loads(self.run("status", "--json"))["balancers"]
        return balancers[0]["interval_ms"] if balancers else 0

    @contextlib.contextmanager
    def flows(self, port):
        """Start new flows at an even rate, from a separate process."""
        program = self.lab.program(
            "flows", self.lab.net, os.path.join(self.lab.build, "tests", "e2e", "flood"), "lb0",
            self.mac, VIP4, str(port), "flows", "syn", str(random.randrange(8_000_000)),
            "8000000", str(FLOWS_PER_SECOND))
        self.place("flows", False)
        try:
            yield
        finally:
            program.kill()

    def trial(self, name, flows):
        """Run one trial. flows: a context manager that starts new flows; None if they are already running."""
        lab = self.lab
        with contextlib.ExitStack() as stack:
            there, elsewhere = (stack.enter_context(Tap(lab.namespaces[name], "eth0"))
                                for name in ("b1", "b2"))
            here = stack.enter_context(Tap(lab.lb, "lb0"))
            if flows:
                stack.enter_context(flows)
            time.sleep(random.uniform(0.1, 0.2))  # a random phase relative to control's timers
            with lab.namespaces["b1"].inside():
                duck = subprocess.Popen(self.command("lame-duck", "--interval", "1s"),
                                        stdout=subprocess.DEVNULL)
            time.sleep(0.15)
            published = lab.api("stats.show")["segment"]["last_publish_us"] / 1e6
            result = judge(there.read(), elsewhere.read(), here.read(), PORTS[name], published)
        duck.wait(10)
        self.run("ready")
        wait_for("ready", lambda: all(lab.backend("web-1", s)["in_selection"] for s in PORTS), 10)
        return result

    def wait_for_pace(self, key):
        wait_for(f"the agent to be probed every {AGENT[key]} ms",
                 lambda: self.interval_ms() == AGENT[key], 15, 0.1)

    def trials(self, name, busy):
        done = []
        with self.flows(PORTS[name]) if busy else contextlib.nullcontext():
            for _ in range(TRIES * TRIALS):
                self.wait_for_pace("interval_ms" if busy else "inactive_interval_ms")
                one = self.trial(name, None if busy else self.flows(PORTS[name]))
                done += [one] if one else []
                if len(done) == TRIALS:
                    return done
        raise AssertionError(f"{len(done)} of {TRIES * TRIALS} trials were as they should")


def of(values, share):
    return sorted(values)[int((len(values) - 1) * share)]


def row(name, values):
    return f"{name} " + "/".join(f"{of(values, share) * 1e3:.2f}" for share in (0.5, 0.99, 1))


@scenario(services=SERVICES, config=QUICK, start=False, alone=True, seconds=180 + 20 * TRIALS,
          hosts=2)
def lame_duck_reaches_new_flows_at_once(lab):
    """New flows stop within two round trips and a publication after weir-agent announces lame-duck"""
    pond = Pond(lab, PORTS)
    for name in PORTS:
        for busy in (False, True):
            trials = pond.trials(name, busy)
            plain = [trip for trial in trials for trip in trial.trips]
            within = sum(t.last < 2 * t.trip + t.published for t in trials)
            text = (f"{name}, {'with' if busy else 'without'} flows: "
                    f"{row('last', [t.last for t in trials])}, "
                    f"{row('round trip', [t.trip for t in trials])}, "
                    f"{row('of it control', [t.control for t in trials])}, "
                    f"{row('publication', [t.published for t in trials])}, "
                    f"{row('other round trips', plain)} ms, flows "
                    f"{max(t.flows for t in trials)} at most, {within} of {len(trials)} within")
            print(f"\n    {text}", end=" ", flush=True)
            # If CPUs are busy, both sides of the comparison are delayed in the same way. The
            # comparison would fail if the notice were processed or published ten times later.
            assert within >= 0.8 * len(trials), text
            assert of([t.trip for t in trials], 0.5) < 5 * of(plain, 0.5), text
    history = lab.api("health.history", service="checked", backend="web-1")
    assert history[-2]["to"] == "lame-duck" and history[-2]["source"] == "agent", history[-2:]
