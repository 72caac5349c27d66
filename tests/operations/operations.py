# SPDX-License-Identifier: BSD-3-Clause
"""The operations. Each operation is chosen at random, from the seed and the state of the model;
then it is executed, and applied to the model."""
import contextlib
import json
import signal

from model import POLICIES, address
from netns import wait_for

SERVICES_MAX = 6
WEIGHTS = (0, 1, 10, 50, 100, 100, 200, 65535)
# Probability of each operation in percent.
KINDS = {"weight": 12, "state": 16, "policy": 6, "bind": 7, "drain-host": 4, "reload": 18,
         "sighup": 3, "bad-reload": 3, "host": 12, "steal": 3, "kill-control": 5, "kill-while": 6,
         "stop-control": 2, "kill-dataplane": 1, "nothing": 2}
DEADLINES_MS = (None, None, 0, 100, 600_000)
SOON_MS = 1000
RELOADS = ("add-backend", "remove-backend", "weight", "policy", "threshold", "subset", "table",
           "add-service", "remove-service")


class Operations:
    def __init__(self, lab, checks, chance):
        self.lab, self.checks, self.chance = lab, checks, chance
        self.model = checks.model
        self.next = None
        self.control_pid = lab.programs["control"].pid

    def choose(self):
        kind = self.chance.choices(list(KINDS), KINDS.values())[0]
        self.next = getattr(self, "choose_" + kind.replace("-", "_"))(kind)
        return self.next[0]

    def perform(self, done):
        text, action = self.next
        what = action()
        if what:
            done[-1] = f"{text}: {what}"
        assert self.lab.programs["control"].alive(), "weir-control ended"
        assert self.lab.programs["dataplane"].alive(), "weir-dataplane ended"
        assert self.lab.programs["control"].pid == self.control_pid

    def any_service(self):
        return self.model.services[self.chance.choice(sorted(self.model.services))]

    def any_backend(self):
        service = self.any_service()
        return service, service.backends[self.chance.choice(sorted(service.backends))]

    # --- changes by command ---------------------------------------------------------------

    def change(self):
        """Choose a change. Returns (text, command, arguments, function that applies the change to the model)."""
        service, backend = self.any_backend()
        place = {"service": service.name, "backend": backend.name}
        if self.chance.random() < 0.4:
            weight = self.chance.choice((None,) + WEIGHTS)
            return (f"{service.name}/{backend.name} {weight}", "weight.set",
                    {**place, "weight": weight},
                    lambda: setattr(backend, "runtime_weight", weight))
        admin = self.chance.choice(("drain", "drain", "ready", "ready", "maintenance"))
        more = self.any_deadline() if admin == "drain" else {}

        def applied():
            backend.admin, backend.drained = admin, admin == "drain"
            self.end_drain(service, backend, more)
        return (f"{service.name}/{backend.name} {admin} {more or ''}", "backend." + admin,
                {**place, **more}, applied)

    def any_deadline(self):
        deadline = self.chance.choice(DEADLINES_MS)
        return {} if deadline is None else {"interval_ms": deadline}

    @staticmethod
    def is_soon(arguments):
        return arguments.get("interval_ms", SOON_MS) < SOON_MS

    def end_drain(self, service, backend, arguments):
        """If the deadline of a drain is soon, wait until it has passed. Remaining flows are then kept or dropped."""
        if not self.is_soon(arguments):
            return
        def state():
            row = self.lab.backend(backend.name, service.name)
            return row["drain"]["state"]
        wait_for("the end of a drain", lambda: state() != "draining", 10)
        allowed = {"drained", "dropped" if service.at_deadline == "drop" else "kept"}
        assert state() in allowed, f"{service.name}/{backend.name}: {state()}, not {allowed}"
        if state() == "dropped":
            backend.admin = "maintenance"

    def change_bind(self):
        """Choose a change to a bind. Returns the same values as change()."""
        service = self.any_service()
        verb = self.chance.choice(("drain", "ready"))
        more = self.any_deadline() if verb == "drain" else {}
        what = {"service": service.name} if self.chance.random() < 0.5 else {"address": service.vip}

        def applied():
            service.drained = verb == "drain"
            if self.is_soon(more):
                self.end_bind_drain(service)
        return f"{service.name} {verb} {more or ''}", "bind." + verb, {**what, **more}, applied

    def end_bind_drain(self, service):
        def drain():
            return self.lab.api("bind.show", service=service.name)
        wait_for("the end of a drain", lambda: drain()["drain"]["state"] != "draining", 10)
        is_left = any(key[0] == service.number for key in self.model.flows)
        then = "dropped" if service.at_deadline == "drop" else "kept"
        state = drain()["drain"]["state"]
        assert state in ({then} if is_left else {then, "drained"}), \
            f"{service.name}: {state}, not {then}; {is_left} {drain()}"
        if state == "dropped":
            self.checks.ended_flows(service)

    def choose_bind(self, kind):
        text, command, arguments, applied = self.change_bind()

        def action():
            self.lab.api(command, **arguments)
            applied()
            self.checks.new_flows(self.any_service())
        return f"{kind} {text}", action

    def choose_drain_host(self, kind):
        """Drain all backends of a host, in all services, put them into maintenance, or make them ready."""
        host = self.chance.choice(sorted(self.any_service().backends))
        verb = self.chance.choice(("drain", "drain", "maintenance", "ready", "ready"))
        more = self.any_deadline() if verb == "drain" else {}

        def action():
            self.lab.api("host." + verb, address=address(host), **more)
            services = [service for service in self.model.services.values() if host in service.backends]
            is_out = all(service.backends[host].admin == "maintenance" and not service.backends[host].drained
                         for service in services)
            for service in services:
                backend = service.backends[host]
                if verb == "maintenance":
                    backend.admin, backend.drained = "maintenance", False
                elif verb == "ready" and (backend.drained or is_out):
                    backend.admin, backend.drained = "ready", False
                elif verb == "drain" and (backend.drained or backend.admin != "maintenance"):
                    backend.admin, backend.drained = "drain", True
                    self.end_drain(service, backend, more)
        return f"{kind} h-{host} {verb} {more or ''}", action

    def choose_weight(self, kind):
        text, command, arguments, applied = self.change()

        def action():
            answer = self.lab.api(command, **arguments)
            assert answer["backend"] == arguments["backend"], answer
            applied()
            if self.chance.random() < 0.5:  # an operation must be in effect when its answer arrives
                self.checks.state()
                self.checks.traffic()
        return f"{command if kind == 'weight' else kind} {text}", action

    choose_state = choose_weight

    def choose_policy(self, kind):
        service = self.any_service()
        policy = self.chance.choice((None,) + POLICIES)

        def action():
            self.lab.api("service.set", service=service.name, policy=policy)
            service.runtime_policy = policy
        return f"{kind} {service.name} {policy or 'configured'}", action

    def choose_steal(self, kind):
        value = self.chance.choice(("on", "off", None))
        return f"{kind} {value}", lambda: self.check_steal(value)

    def check_steal(self, value):
        answer = self.lab.api("worker.steal", stealing=value)
        wanted = value is not None and value == "on"
        assert (answer["stealing"] == "on", answer["configured"]) == (wanted, False), answer

    # --- changes to the configuration file --------------------------------------------------

    def change_file(self, gone):
        """Make one change to the configuration file. gone: names that the same reload removes. The
        change must not add them again: the file would then be unchanged."""
        what = self.chance.choice(RELOADS)
        service = self.any_service()
        hosts = sorted(service.backends)
        free = [host for host in sorted(self.model.up - set(hosts))
                if (service.number, host) not in gone]
        if what == "add-backend" and free:
            host = self.chance.choice(free)
            self.add_backend(service, host)
            return f"{service.name} add h-{host}"
        if what == "remove-backend" and len(hosts) > 1:
            host = self.chance.choice(hosts)
            del service.backends[host]
            gone.add((service.number, host))
            return f"{service.name} remove h-{host}"
        if what == "weight":
            backend = service.backends[self.chance.choice(hosts)]
            backend.weight = self.chance.choice(WEIGHTS)
            return f"{service.name}/{backend.name} weight {backend.weight}"
        if what == "policy":
            policy = self.chance.choice(POLICIES)
            service.policy = policy
            return f"{service.name} policy {policy}"
        if what == "threshold":
            service.threshold = self.chance.choice((0, 30, 50, 50, 80, 100))
            return f"{service.name} threshold {service.threshold}"
        if what == "subset":
            service.subset = self.chance.choice((None, None, 1, 2, 3))
            return f"{service.name} subset {service.subset}"
        if what == "add-service" and len(self.model.services) < SERVICES_MAX and self.model.up:
            return self.add_service(gone)
        if what == "remove-service" and len(self.model.services) > 2:
            self.model.remove_service(service.number)
            gone.add(service.number)
            return f"remove {service.name}"
        service.table_size = self.chance.choice((61, 1021, 4093))
        return f"{service.name} table {service.table_size}"

    def add_backend(self, service, host):
        added = self.model.copy()
        added.add_service(99, [host], self.chance.choice((1, 100, 100)))
        service.backends[host] = added.services[99].backends[host]

    def add_service(self, gone):
        free = set(range(2 * SERVICES_MAX)) - set(self.model.services) - gone
        number = self.chance.choice(sorted(free))
        hosts = self.chance.sample(sorted(self.model.up),
                                   self.chance.randint(1, len(self.model.up)))
        self.model.add_service(number, sorted(hosts))
        return f"add s{number} with {len(hosts)}"

    def changed_file(self):
        gone, before = set(), self.model.copy()
        changes = [self.change_file(gone) for _ in range(self.chance.choice((1, 1, 2, 4)))]
        self.model.reloaded(before)
        self.lab.write_config(self.model.configuration())
        return ", ".join(changes)

    def choose_reload(self, kind):
        def action():
            changes = self.changed_file()
            # "cost" is left out, because it is a number of flows, which changes
            listed, done = ([{key: change[key] for key in change if key != "cost"}
                             for change in self.lab.api(command)["changes"]]
                            for command in ("config.diff", "config.reload"))
            assert listed == done, f"config.diff has {listed}, config.reload {done}"
            return changes
        return kind, action

    def choose_sighup(self, kind):
        def action():
            changes = self.changed_file()
            self.lab.programs["control"].signal(signal.SIGHUP)
            self.checks.state()
            self.checks.published()
            return changes
        return kind, action

    def choose_bad_reload(self, kind):
        """Check that a reload of an invalid file changes nothing."""
        def action():
            broken = self.model.configuration()
            broken[0]["backends"][0]["weight"] = 65536
            with open(self.lab.config_path + ".bad", "w", encoding="utf-8") as file:
                json.dump({**self.lab.config(), "services": broken}, file)
            with contextlib.closing(self.lab.api_connect()) as sock:
                answer = self.lab.api_ask(sock, "config.reload", path=self.lab.config_path + ".bad")
            assert not answer["ok"] and answer["code"] == "refused", answer
            assert "weight" in answer["errors"][0]["path"], answer
        return kind, action

    # --- events of hosts and programs -----------------------------------------------

    def choose_host(self, kind):
        up = sorted(self.model.up)
        down = sorted(set(self.lab.hosts) - self.model.up)
        goes = up and (not down or self.chance.random() < 0.45)
        host = self.chance.choice(up if goes else down)

        def action():
            if goes:
                self.lab.listeners.shut(host)
                self.model.up.discard(host)
            else:
                self.lab.listeners.open(host)
                self.model.up.add(host)
            self.checks.state()
            self.checks.published()
        return f"{kind} h-{host} {'down' if goes else 'up'}", action

    def start_control(self):
        self.lab.start_control()
        self.control_pid = self.lab.programs["control"].pid
        wait_for("control attached", lambda: self.lab.api("version")["dataplane"]["attached"], 15)
        self.checks.state()
        self.checks.published()

    def choose_kill_control(self, kind):
        """Kill control, and check that forwarding continues while control is down (S3)."""
        def action():
            self.lab.programs["control"].kill()
            self.checks.old_flows()
            self.start_control()
        return kind, action

    def choose_stop_control(self, kind):
        def action():
            assert self.lab.programs["control"].stop() == 0
            self.checks.old_flows()
            self.start_control()
        return kind, action

    def choose_kill_while(self, kind):
        """Kill control during an operation. After that, the operation must be either done
        completely or not done."""
        text, command, arguments, applied = \
            self.change_bind() if self.chance.random() < 0.3 else self.change()
        pause = self.chance.choice((0, 0.0002, 0.001, 0.005))

        def action():
            with contextlib.closing(self.lab.api_connect()) as sock:
                sock.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
                with contextlib.suppress(TimeoutError):
                    sock.settimeout(pause or 0.00001)
                    sock.recv(1)
                self.lab.programs["control"].kill()
            # It is unknown whether UDP flows have already moved
            self.checks.old_flows(protocols=("tcp",))
            self.lab.start_control()
            self.control_pid = self.lab.programs["control"].pid
            was_done = self.is_done(command, arguments)
            if was_done:
                applied()
            self.checks.state()
            self.checks.published()
            return "done" if was_done else "not done"
        return f"{kind} {command} {text}", action

    def is_done(self, command, arguments):
        wait_for("control attached", lambda: self.lab.api("version")["dataplane"]["attached"], 15)
        if command.startswith("bind."):
            place = {key: arguments[key] for key in ("service", "address") if key in arguments}
            shown = self.lab.api("bind.show", **place)
            return (shown["drained_binds"] > 0) == (command == "bind.drain") and \
                self.has_deadline(shown["drain"], arguments)
        backend = self.lab.backend(arguments["backend"], arguments["service"])
        if command == "weight.set":
            return backend["runtime_weight"] == arguments["weight"]
        if command == "backend.drain":
            return backend["drain"] is not None and self.has_deadline(backend["drain"], arguments)
        return backend["admin"] == command.partition(".")[2]

    def has_deadline(self, drain, arguments):
        """Returns whether a drain's deadline is like the deadline in the arguments: soon, or far away."""
        if drain is None:
            return True
        far = drain["state"] == "draining" and drain["left_ms"] not in range(SOON_MS)
        return not far if self.is_soon(arguments) else far or drain["state"] == "drained"

    def choose_kill_dataplane(self, kind):
        """Kill the dataplane. Control is not restarted, and publishes the whole state again (S4)."""
        def action():
            epoch = self.lab.api("version")["dataplane"]["epoch"]
            self.lab.programs["dataplane"].kill()
            wait_for("control to detect the end of the dataplane",
                     lambda: not self.lab.api("version")["dataplane"]["attached"], 10)
            self.checks.dataplane_restarted()
            self.lab.start_dataplane()
            self.lab.attach_tap()
            wait_for("control publishes again", lambda: self.lab.api("version")["dataplane"].get(
                "epoch") not in (None, epoch), 15)
            self.checks.state()
            self.checks.published()
        return kind, action

    def choose_nothing(self, kind):
        return kind, lambda: None
