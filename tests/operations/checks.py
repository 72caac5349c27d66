# SPDX-License-Identifier: BSD-3-Clause
"""The checks against the model after each operation."""
from model import address
from netns import wait_for
from wire import ACK, FIN, PSH, SYN, TCP, UDP

SECONDS = 10  # maximum time until the state agrees with the model
# In each round of traffic: number of new flows, packets of existing flows, and SYNs from ports of
# existing flows.
NEW, OLD, SYNS = 6, 8, 2
FLOWS_MAX = 300


class Checks:
    def __init__(self, lab, wire, model, chance):
        self.lab, self.wire, self.model, self.chance = lab, wire, model, chance
        self.seen = 0  # packets sent since the dataplane was started
        self.packets, self.created = 0, 0
        self.selected = {}  # service number -> hosts that get new flows
        self.epoch = None

    # --- answers of control --------------------------------------------------------------

    def compare_service(self, service):
        rows = {row["name"]: row for row in self.lab.backends(service.name)
                if not row["leaving"]}
        expected = self.model.expected(service)
        assert set(rows) == set(expected), \
            f"{service.name}: has {sorted(rows)}, should have {sorted(expected)}"
        for name, wanted in expected.items():
            got = {key: rows[name][key] for key in wanted}
            assert got == wanted, f"{service.name}/{name}: is {got}, should be {wanted}"
        selected = {host for host, backend in service.backends.items()
                    if rows[backend.name]["in_selection"]}
        usable, panic = service.usable(self.model.up)
        assert service.selected_is_right(selected, self.model.up), \
            f"{service.name}: selects {sorted(selected)} of {sorted(usable)}"
        return selected, panic

    def compare(self):
        """Check all answers of control; returns true, or raises AssertionError."""
        shown = {row["name"]: row for row in self.lab.api("service.show")}
        wanted = {service.name: service for service in self.model.services.values()}
        assert set(shown) == set(wanted), f"services {sorted(shown)}, not {sorted(wanted)}"
        for name, service in wanted.items():
            selected, panic = self.compare_service(service)
            got = tuple(shown[name][key] for key in
                        ("policy", "runtime_policy", "panic", "drained_binds"))
            expected = (service.active_policy, service.runtime_policy, panic,
                        [service.bind] if service.drained else [])
            assert got == expected, \
                f"{name}: policy, panic and drained binds {got}, should be {expected}"
            self.selected[service.number] = selected
        return True

    def state(self):
        wait_for("the state of the model", self.compare, SECONDS)

    def published(self):
        """Wait until a change is published. Needed if control was killed before it answered, because
        control shows changes before it publishes them."""
        self.lab.wait_published(SECONDS)

    # --- traffic --------------------------------------------------------------------------

    def receive(self, wanted):
        found = self.wire.receive(wanted, SECONDS)
        lost = sorted(set(wanted) - set(found))
        assert not lost, f"{len(lost)} of {len(wanted)} packets did not come out: " \
            f"{[wanted[number] for number in lost[:5]]}, drops {self.lab.drops()}"
        self.seen += len(found)
        self.packets += len(found)
        return found

    def tuple_of(self):
        self.created += 1
        return f"192.0.2.{2 + self.created // 50_000 % 200}", 1024 + self.created % 50_000

    def old_flows(self, count=OLD, protocols=("tcp", "udp")):
        """Check that packets of existing flows are sent to their backend."""
        keys = [key for key in self.model.flows
                if self.model.services[key[0]].protocol in protocols]
        wanted = {}
        for key in self.chance.sample(keys, min(count, len(keys))):
            wanted[self.send(key, ACK | PSH)] = key
        for number, backend in self.receive(wanted).items():
            key = wanted[number]
            service, host = self.model.services[key[0]], self.model.flows[key]
            if service.protocol == "udp" and service.is_down(host, self.model.up) \
                    and self.selected[key[0]]:
                allowed = {address(each) for each in self.selected[key[0]]}
                assert backend in allowed, \
                    f"datagram of {key}, whose {host} is down, went to {backend}, not {allowed}"
                self.model.flows[key] = int(backend[-1])
            else:
                assert backend == address(host), \
                    f"S6: flow {key} of {address(host)} went to {backend}"

    def removed_flows(self):
        """Check that connections of a removed service continue until its deadline."""
        flows = self.model.removed_flows
        wanted = {self.wire.send(key[1], key[2], flows[key][0], TCP, ACK | PSH): key
                  for key in self.chance.sample(sorted(flows), min(OLD, len(flows)))}
        for number, backend in self.receive(wanted).items():
            vip, host = flows[wanted[number]]
            assert backend == address(host), \
                f"flow {wanted[number]} of {address(host)}, {vip} removed, went to {backend}"

    def old_ports(self):
        """Send SYNs from the ports of existing connections, like an attacker, or a client that
        reuses the port. The flow stays on its backend unless the backend is down. The balancer
        sends no challenge ACK, because the checksum of the SYN is wrong."""
        keys = [key for key in self.model.flows
                if self.model.services[key[0]].protocol == "tcp"]
        wanted = {}
        for key in self.chance.sample(keys, min(SYNS, len(keys))):
            wanted[self.send(key, SYN)] = key
        for number, backend in self.receive(wanted).items():
            key = wanted[number]
            host, selected = self.model.flows[key], self.selected[key[0]]
            if self.model.services[key[0]].is_down(host, self.model.up) and selected:
                assert int(backend[-1]) in selected, \
                    f"SYN of {key}, whose {host} is down, went to {backend}, not {selected}"
                self.model.flows[key] = int(backend[-1])
            else:
                assert backend == address(host), \
                    f"SYN of {key} of {address(host)} went to {backend}"
        self.confirm(list(wanted.values()))

    def send(self, key, flags, correct=False):
        service = self.model.services[key[0]]
        protocol = TCP if service.protocol == "tcp" else UDP
        return self.wire.send(key[1], key[2], service.vip, protocol, flags, correct)

    def dropped(self, what, packets, reasons):
        """Check that all packets are dropped for one of these reasons. packets: functions that send a packet."""
        def count():
            drops = self.lab.drops()
            return sum(drops.get(reason, 0) for reason in reasons)

        before = count()
        for send in packets:
            send()
        wait_for(f"drops of {what} for {reasons}", lambda: count() == before + len(packets),
                 SECONDS)

    def refused_flows(self, service):
        """Check that a drained service gets no new flows."""
        self.dropped(f"new flows of {service.name}", [
            lambda key=(service.number, *self.tuple_of()): self.send(key, SYN)
            for _ in range(NEW)], ("closed_port",))

    def ended_flows(self, service):
        """Check that the flows of a service were dropped at the deadline of its drain."""
        keys = [key for key in self.model.flows if key[0] == service.number]
        self.dropped(f"old flows of {service.name}", [
            lambda key=key, flags=flags: self.send(key, flags, correct=True)
            for key, flags in zip(keys[:OLD], OLD * (SYN, ACK | PSH))],
            ("backend_down", "closed_port"))
        self.model.forget_flows(service.number)

    def new_flows(self, service):
        if service.drained:
            self.refused_flows(service)
            return
        if not self.selected[service.number]:
            self.no_backend_to_choose(service)
            return
        tcp = service.protocol == "tcp"
        wanted, hosts = {}, {}
        for _ in range(NEW):
            key = (service.number, *self.tuple_of())
            for flags in (SYN, ACK, ACK | PSH) if tcp else (0, 0):
                wanted[self.send(key, flags)] = key
        allowed = {address(host) for host in self.selected[service.number]}
        for number, backend in self.receive(wanted).items():
            key = wanted[number]
            assert backend in allowed, \
                f"new flow {key} went to {backend}, allowed are {sorted(allowed)}"
            assert hosts.setdefault(key, backend) == backend, \
                f"packets of flow {key} went to {hosts[key]} and {backend}"
        for key, backend in hosts.items():
            self.model.flows[key] = int(backend[-1])
        self.confirm(list(hosts))

    def confirm(self, keys):
        """Make flows established: send each flow two more packets, one after the other. Two packets
        in one burst would not be sufficient, because they may count as one packet."""
        for _ in range(2):
            wanted = {self.send(key, ACK | PSH): key for key in keys}
            for number, backend in self.receive(wanted).items():
                key = wanted[number]
                assert backend == address(self.model.flows[key]), \
                    f"S6: new flow {key} of {self.model.flows[key]} went to {backend}"

    def no_backend_to_choose(self, service):
        self.dropped(f"new flows of {service.name}", [
            lambda key=(service.number, *self.tuple_of()): self.send(key, SYN)
            for _ in range(NEW)], ("no_backend",))

    def end_some(self):
        """Clients close the oldest connections, so that the table does not grow."""
        wanted = {}
        for key in list(self.model.flows)[:max(len(self.model.flows) - FLOWS_MAX, 0)]:
            if self.model.services[key[0]].protocol == "tcp":
                wanted[self.send(key, ACK | FIN)] = key
            del self.model.flows[key]
        self.receive(wanted)

    def traffic(self):
        self.old_flows()
        self.removed_flows()
        self.old_ports()
        if self.model.services:
            self.new_flows(self.model.services[self.chance.choice(sorted(self.model.services))])
        self.end_some()

    # --- counters -------------------------------------------------------------------------

    def accounted(self):
        """Check that received packets = forwarded, replied, ... + dropped packets, that every drop
        has a reason, and that all packets sent by the test were counted."""
        stats = self.lab.api("stats.show")
        total, drops = stats["workers"], stats["drops"]
        fates = {name: total[name] for name in
                 ("forwarded", "replied", "to_kernel", "dropped", "handed_over")}
        assert total["rx_packets"] == sum(fates.values()), (total["rx_packets"], fates)
        assert total["dropped"] == sum(drops.values()), (total["dropped"], drops)
        assert total["forwarded"] == self.seen, \
            f"{self.seen} packets came out, {total['forwarded']} were counted as forwarded"
        assert total["flow_untracked"] == 0, "a flow found no room in the table"
        return True

    def counters(self):
        wait_for("packets in = out + drops", self.accounted, SECONDS)
        late = self.wire.unexpected()
        assert not late, f"packets came out that should not have: {late[:5]}"

    def dataplane_restarted(self):
        self.seen = 0
        self.model.flows.clear()
        self.model.removed_flows.clear()

    def after_operation(self, number):
        self.state()
        self.traffic()
        self.counters()
        if number % 100 == 0:
            self.all_flows()
            print(f"{number} operations, {self.packets} packets", flush=True)

    def all_flows(self):
        self.old_flows(len(self.model.flows))
