# SPDX-License-Identifier: BSD-3-Clause
"""The reference model: the expected state after every operation, derived only from the documents.

docs/guide/operations.md describes the effects on flows. docs/reference/configuration.md describes
which backends get new flows (panic_threshold_percent). docs/reference/cli.md describes which run-time
settings a reload keeps.
"""
import copy

WEIGHTED = ("maglev", "weighted-round-robin")
POLICIES = ("maglev", "round-robin", "least-loaded", "weighted-round-robin",
            "interleaved-weighted-round-robin", "time-weighted-round-robin", "fair-share", "random",
            "power-of-two", "prequal")
CHECK_PORT = 8000
# Checks of a host that is down fail at once, because the host refuses connections. The timeout is
# long, so that checks do not fail while the machine stalls: the model does not expect flows to move
# then.
CHECK = {"type": "tcp", "port": CHECK_PORT, "interval_ms": 250, "timeout_ms": 250, "rise": 1,
         "fall": 3}


def address(host):
    return f"10.0.0.1{host}"


class Backend:
    def __init__(self, host, weight):
        self.host, self.weight = host, weight
        self.admin, self.runtime_weight = "ready", None
        # Drained by an operator (if its flows were dropped, admin is "maintenance")
        self.drained = False

    @property
    def name(self):
        return f"h-{self.host}"

    @property
    def effective_weight(self):
        return self.weight if self.runtime_weight is None else self.runtime_weight


class Service:
    def __init__(self, number, protocol):
        self.number, self.protocol = number, protocol
        self.policy, self.runtime_policy = "maglev", None
        self.threshold, self.subset, self.table_size = 50, None, 1021
        self.backends = {}  # host -> Backend
        self.at_deadline = "drop" if number % 2 else "keep"
        self.removed_ms = 0 if number % 4 == 3 else 600_000
        self.drained = False  # whether the bind of the service is drained

    @property
    def name(self):
        return f"s{self.number}"

    @property
    def bind(self):
        return f"{self.protocol} {self.vip}:80"

    @property
    def vip(self):
        return f"198.51.100.{10 + self.number}"

    @property
    def active_policy(self):
        return self.runtime_policy or self.policy

    def usable(self, up):
        """Returns (hosts that can get new flows, whether the service is in panic mode)."""
        eligible, failed, last = [], [], []
        for host, backend in self.backends.items():
            if backend.admin == "maintenance" or backend.effective_weight == 0:
                continue
            if backend.admin == "drain":
                last.append(host)
            else:
                (eligible if host in up else failed).append(host)
        in_service = len(eligible) + len(failed)
        panic = in_service + len(last) > 0 and \
            100 * len(eligible) < self.threshold * max(in_service, 1)
        if not panic:
            return set(eligible), False
        return set(eligible + failed + ([] if eligible else last)), True

    def is_down(self, host, up):
        """Returns whether UDP flows move away from the backend of this host."""
        backend = self.backends.get(host)
        if host in self.usable(up)[0]:
            return False
        return backend is None or backend.admin == "maintenance" or host not in up

    def selected_is_right(self, selected, up):
        """Returns whether `selected` is a correct set of hosts that get new flows."""
        usable, _ = self.usable(up)
        if self.subset is None or len(self.backends) <= self.subset:
            return selected == usable
        return selected <= usable and (len(selected) > 0) == (len(usable) > 0)

    def configuration(self):
        made = {"name": self.name, "forwarding": "ipip", "policy": {"name": self.policy},
                "table_size": self.table_size, "panic_threshold_percent": self.threshold,
                "health_check": CHECK, "drain": {"at_deadline": self.at_deadline, "removed_ms": self.removed_ms},
                "binds": [{"address": self.vip, "protocol": self.protocol, "port": 80}],
                "backends": [{"name": b.name, "address": address(host), "weight": b.weight}
                             for host, b in self.backends.items()]}
        if self.subset is not None:
            made["subset"] = {"algorithm": "deterministic", "size": self.subset,
                              "client": "group"}
        return made


class Model:
    def __init__(self, hosts):
        self.services, self.up = {}, set(hosts)
        self.flows = {}  # (service number, source, port) -> host
        # Flows of removed services that drain; same keys as flows -> (VIP, host)
        self.removed_flows = {}

    def add_service(self, number, hosts, weight=100):
        service = Service(number, "udp" if number % 3 == 2 else "tcp")
        service.backends = {host: Backend(host, weight) for host in hosts}
        self.services[number] = service
        self.removed_flows = {key: flow for key, flow in self.removed_flows.items()
                              if key[0] != number}  # the new service has the same address

    def copy(self):
        return copy.deepcopy(self)

    def configuration(self):
        return [service.configuration() for _, service in sorted(self.services.items())]

    def remove_service(self, number):
        service = self.services.pop(number)
        if service.protocol == "tcp" and service.removed_ms > 0:
            self.removed_flows.update((key, (service.vip, host))
                                      for key, host in self.flows.items() if key[0] == number)
        self.forget_flows(number)

    def forget_flows(self, number):
        self.flows = {key: host for key, host in self.flows.items() if key[0] != number}

    def reloaded(self, before):
        """Apply a reload: remove the run-time settings whose configured values have changed."""
        for number, service in self.services.items():
            former = before.services.get(number)
            if former is None:
                continue
            if service.policy != former.policy:
                service.runtime_policy = None
            for host, backend in service.backends.items():
                if host in former.backends and backend.weight != former.backends[host].weight:
                    backend.runtime_weight = None

    def expected(self, service):
        """Returns the expected result of backend.show, except in_selection."""
        rows = {}
        for host, backend in service.backends.items():
            rows[backend.name] = {
                "admin": backend.admin, "weight": backend.weight,
                "health": "healthy" if host in self.up else "refusing",
                "runtime_weight": backend.runtime_weight, "address": address(host)}
            if service.active_policy in WEIGHTED:
                rows[backend.name]["effective_weight"] = backend.effective_weight
        return rows
