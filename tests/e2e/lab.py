# SPDX-License-Identifier: BSD-3-Clause
"""The lab: clients, a balancer and four backends in network namespaces on this machine.

                                   net (router and switch)
    client                  192.0.2.1 |            | 10.0.0.1                       lb
    192.0.2.2  eth0 ------------------+-- routes --+-- br0 --+------- lb0  10.0.0.2
    2001:db8:c::2                                            |        weir-dataplane (AF_XDP)
                                                             |        weir-control
      VIPs 198.51.100.10 and 2001:db8:f::10                  +-- eth0 10.0.0.11    b1
      are routed to lb0; each backend has                    +-- eth0 10.0.0.12    b2
      them on its lo. Backends answer clients                +-- eth0 10.0.0.13    b3
      directly, past the balancer.                           +-- eth0 10.0.0.14    b4
                                                      nginx, server.py, weir-agent decap

    IPv6: 2001:db8:c::/64 at the clients, 2001:db8:a::/64 at br0, last part as in IPv4.
    MTU: 1500 at the clients, 1600 behind br0, so that 1500 bytes still fit when encapsulated.

Variants (arguments of Lab):
    two_armed   lb0 has a separate network towards the clients, 10.1.0.0/24; lb1 is in br0
    vlan        lb0's link carries VLAN 100 tagged (vlan.bpf.c acts as the switch port); the health
                checks and the balancer's own traffic use a second, untagged link, lb1
    lb_mtu      MTU of the balancer's port, to make packets not fit
    hosts       number of backends, up to 99
    place       number of this lab among concurrent ones: each has another core for its worker

Names contain the pid: weir-<pid>-client and so on. Lab.close() removes everything.
"""
import contextlib
import glob
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from netns import (LabError, Namespace, Program, ip_batch, reap, remove_namespaces, sh, sweep,
                   undisturbed, wait_for)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VIP4, VIP6 = "198.51.100.10", "2001:db8:f::10"
BACKENDS = ("web-1", "web-2", "web-3", "web-4")
PYTHON = "/usr/bin/python3"
VLAN = 100
BRIDGE_MAC = "02:00:00:00:00:b0"


def backend_address(number, family=4):
    return f"10.0.0.1{number}" if family == 4 else f"2001:db8:a::1{number}"


def service(name, port, protocol="tcp", backends=None, check=None, vips=(VIP4, VIP6), **more):
    """Returns a service for the lab's configuration. backends: {name: weight} or [{...}]."""
    backends = backends or {name: 100 for name in BACKENDS}
    if isinstance(backends, dict):
        backends = [{"name": key, "address": backend_address(key.rpartition("-")[2]),
                     "weight": weight}
                    for key, weight in backends.items()]
    result = {"name": name, "forwarding": "ipip", "policy": {"name": "maglev"},
              "binds": [{"address": vip, "protocol": protocol, "port": port} for vip in vips],
              "backends": backends}
    if check:
        result["health_check"] = {"interval_ms": 400, "timeout_ms": 400, "rise": 1, "fall": 3,
                                  **check}
    return {**result, **more}


def web(backends=None, **more):
    return service("web", 80, backends=backends, check={"type": "http", "path": "/healthz"},
                   **more)


def lines(backends=None, **more):
    return service("lines", 7000, backends=backends, **more)


def upload(backends=None, **more):
    return service("upload", 7001, backends=backends, **more)


def echo(backends=None, **more):
    return service("echo", 9000, protocol="udp", backends=backends, **more)


class Lab:
    def __init__(self, build, services=None, *, two_armed=False, vlan=False, lb_mtu=1600,
                 workers=None, port=None, config=None, hosts=len(BACKENDS), place=0,
                 dies_with_us=True):
        self.build = os.path.abspath(build)
        self.prefix = f"weir-{os.getpid()}-"
        self.two_armed, self.vlan, self.lb_mtu = two_armed, vlan, lb_mtu
        self.workers, self.port, self.extra = workers, port, config or {}
        self.services = services or [web()]
        self.hosts, self.core = range(1, hosts + 1), (os.cpu_count() - 1 - place) % os.cpu_count()
        self.dies_with_us = dies_with_us
        self.dataplane_options = ("--group", "nogroup", "--control-user", "nobody",
                                  "--steer-object", os.path.join(self.build, "bpf", "steer.bpf.o"))
        self.dataplane_env = None  # environment of the dataplane; None = the environment of this process
        self.port_mac = None  # MAC address of the balancer's port, if a scenario needs it
        self.control_options = ("--user", "nobody", "--group", "nogroup")
        self.namespaces, self.programs = {}, {}
        self.links, self.commands = [], {}  # collected until apply()
        self.dir = None

    # --- making and removing ---------------------------------------------------------------

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def make(self):
        os.umask(0o022)  # control runs as user nobody, and must be able to read its configuration
        self.dir = tempfile.mkdtemp(prefix=f"weir-{os.getpid()}-")
        os.chmod(self.dir, 0o755)
        self.run_dir = os.path.join(self.dir, "run")
        self.config_path = os.path.join(self.dir, "weir.json")
        self.files = os.path.join(self.dir, "files")
        os.mkdir(self.files)
        for name in ("net", "client", "lb", *(f"b{number}" for number in self.hosts)):
            self.namespaces[name] = Namespace(self.prefix + name)
        ip_batch(("netns", "add", each.name) for each in self.namespaces.values())
        self.net, self.client, self.lb = (self.namespaces[n] for n in ("net", "client", "lb"))
        self.make_network()
        self.write_config()

    def close(self):
        """Remove every process, namespace and file of this lab. Safe to call again."""
        with undisturbed():
            remove_namespaces(self.namespaces.values())
            self.namespaces = {}
            reap()
            for left in glob.glob(f"/run/dpdk/{self.prefix}*"):
                shutil.rmtree(left, ignore_errors=True)
            if self.dir:
                shutil.rmtree(self.dir, ignore_errors=True)
            self.dir = None

    def make_network(self):
        net = self.net
        net.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1,
                   net__ipv4__conf__all__send_redirects=0,
                   net__ipv4__conf__default__send_redirects=0)
        for namespace in self.namespaces.values():
            namespace.sysctl(net__ipv4__conf__all__rp_filter=0,
                             net__ipv4__conf__default__rp_filter=0,
                             net__ipv6__conf__default__accept_dad=0,
                             net__ipv6__conf__all__accept_dad=0,
                             net__ipv6__conf__default__accept_ra=0)
        for namespace in self.namespaces.values():
            self.later(namespace, "link", "set", "lo", "up")
        # Without its own MAC address, the bridge would use the address of one of its ports, which
        # changes with the ports (stop_host).
        self.later(net, "link", "add", "br0", "address", BRIDGE_MAC, "type", "bridge",
                   "forward_delay", "0", "mcast_snooping", "0")
        self.link(self.client, "eth0", "client", ("192.0.2.2/24", "2001:db8:c::2/64"),
                  ("192.0.2.1/24", "2001:db8:c::1/64"))
        self.default_route(self.client, "192.0.2.1", "2001:db8:c::1")
        for number in self.hosts:
            self.make_backend(number)
        self.later(net, "link", "set", "br0", "mtu", 1600, "up")
        self.addresses(net, "br0", ("10.0.0.1/24", "2001:db8:a::1/64"))
        via4, via6 = "10.0.0.2", "2001:db8:a::2"
        lb_addresses = (f"{via4}/24", f"{via6}/64")
        if self.two_armed:
            self.link(self.lb, "lb1", "lb1", lb_addresses, bridge="br0", mtu=1600)
            via4, via6 = "10.1.0.2", "2001:db8:b::2"
            self.link(self.lb, "lb0", "lb0", (f"{via4}/24", f"{via6}/64"),
                      ("10.1.0.1/24", "2001:db8:b::1/64"), mtu=self.lb_mtu)
        elif self.vlan:
            self.link(self.lb, "lb1", "lb1", lb_addresses, bridge="br0", mtu=1600)
            self.link(self.lb, "lb0", "lb0", (), bridge="br0", mtu=self.lb_mtu)
            self.apply()
            self.tag_link("lb0")
            via4, via6 = "10.0.0.3", "2001:db8:a::3"
            for via in (via4, via6):
                self.later(net, "neigh", "replace", via, "lladdr", self.mac(self.lb, "lb0"), "dev",
                           "br0", "nud", "permanent")
        else:
            self.link(self.lb, "lb0", "lb0", lb_addresses, bridge="br0", mtu=self.lb_mtu)
        self.default_route(self.lb, "10.0.0.1", "2001:db8:a::1")
        if self.two_armed:
            self.default_route(self.lb, "10.1.0.1", "2001:db8:b::1")
        self.later(net, "route", "add", "198.51.100.0/24", "via", via4)
        self.later(net, "route", "add", "2001:db8:f::/64", "via", via6)
        self.apply()

    def make_backend(self, number):
        namespace = self.namespaces[f"b{number}"]
        self.link(namespace, "eth0", f"b{number}",
                  (backend_address(number) + "/24", backend_address(number, 6) + "/64"),
                  bridge="br0", mtu=1600)
        self.default_route(namespace, "10.0.0.1", "2001:db8:a::1")
        self.addresses(namespace, "lo", (VIP4 + "/32", VIP6 + "/128"))
        # MTU probing is not needed: replies fit the MTU towards clients, because only packets to
        # backends are encapsulated.
        namespace.sysctl(net__ipv4__conf__all__arp_ignore=1, net__ipv4__conf__all__arp_announce=2,
                         net__ipv4__tcp_mtu_probing=0, net__core__somaxconn=4096,
                         net__ipv4__tcp_max_syn_backlog=8192)

    # link(), addresses() and default_route() collect `ip` commands; apply() runs them with one
    # process per namespace.

    def later(self, namespace, *command):
        self.commands.setdefault(namespace, []).append(command)

    def apply(self):
        """Run the collected commands: create the links, then configure net, then the other namespaces."""
        links, self.links = self.links, []
        commands, self.commands = self.commands, {}
        ip_batch(command for command, _ in links)
        for _, peer in links:
            # Disable TX checksum offload. With offload, a packet from a local socket has only a
            # partial checksum when AF_XDP receives it. Without offload, the kernel computes the
            # checksum on sending.
            self.net.run("ethtool", "-K", peer, "tx", "off", "txvlan", "off")
        for namespace in sorted(commands, key=lambda each: each is not self.net):
            ip_batch(commands[namespace], namespace.name)

    def link(self, namespace, device, peer, addresses, peer_addresses=(), bridge=None, mtu=1500):
        """Add a veth pair: `device` in the namespace, and `peer` in net, with addresses or in a bridge."""
        # The device is set up before its peer: the peer then has a carrier when it gets addresses.
        self.links.append((("link", "add", device, "up", "mtu", mtu, "netns", namespace.name, "type",
                            "veth", "peer", "name", peer, "mtu", mtu, "netns", self.net.name), peer))
        if bridge:
            self.later(self.net, "link", "set", peer, "master", bridge)
        self.later(self.net, "link", "set", peer, "up")
        self.addresses(namespace, device, addresses)
        self.addresses(self.net, peer, peer_addresses)

    def addresses(self, namespace, device, addresses):
        for address in addresses:
            extra = ("nodad",) if ":" in address else ()
            self.later(namespace, "addr", "add", address, "dev", device, *extra)

    def default_route(self, namespace, via4, via6):
        self.later(namespace, "route", "replace", "default", "via", via4)
        self.later(namespace, "route", "replace", "::/0", "via", via6)

    def tag_link(self, port):
        program = os.path.join(self.dir, "vlan.o")
        sh("clang", "-O2", "-g", "-target", "bpf", f"-DVLAN_ID={VLAN}",
           "-I/usr/include/" + os.uname().machine + "-linux-gnu", "-c",
           os.path.join(HERE, "vlan.bpf.c"), "-o", program)
        with self.net.inside():
            sh("tc", "qdisc", "add", "dev", port, "clsact")
            for way, section in (("egress", "tc/to_balancer"), ("ingress", "tc/from_balancer")):
                sh("tc", "filter", "add", "dev", port, way, "bpf", "direct-action", "obj",
                   program, "sec", section)

    @staticmethod
    def mac(namespace, device):
        return json.loads(sh("ip", "-j", "-n", namespace.name, "link", "show", "dev",
                             device))[0]["address"]

    # --- configuration ---------------------------------------------------------------------

    def config(self):
        ports = [{"name": "wan", "device": "net_af_xdp0,iface=lb0", "mtu": self.lb_mtu}]
        if self.two_armed:
            ports.append({"name": "lan", "device": "net_af_xdp1,iface=lb1", "mtu": 1600})
        if self.vlan:
            ports[0].update(vlan=VLAN, gateway_mac=self.mac(self.net, "br0"),
                            source_ipv4="10.0.0.3", source_ipv6="2001:db8:a::3")
        if self.port:
            ports[0].update(self.port)
        return {"instance": {"name": "lb-0", "client_id": 0, "clients": 1}, "ports": ports,
                "workers": {"cores": [self.core], "idle": "yield",
                            **(self.workers or {})},
                "flow_table": {"flows_per_worker": 65536},
                **self.extra, "services": self.services}

    def write_config(self, services=None):
        if services is not None:
            self.services = services
        with open(self.config_path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.config(), file, indent=2)
        os.rename(self.config_path + ".new", self.config_path)

    def write_program(self, name, text):
        """Write a script that every user can run. Returns its path."""
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    # --- programs --------------------------------------------------------------------------

    def binary(self, name):
        for folder in ("", "dataplane", "control/daemon", "control/cli", "control/agent",
                       "control/metrics", "tools/pcap"):
            path = os.path.join(self.build, folder, name)
            if os.path.isfile(path):
                return path
        raise LabError(f"{name} is not in {self.build}: build it first")

    def program(self, name, namespace, *command, env=None):
        program = Program(name, namespace, command, os.path.join(self.dir, f"{name}.log"),
                          self.dies_with_us, env)
        self.programs[name] = program
        return program

    def start(self):
        self.start_backends()
        self.start_dataplane()
        self.start_control()
        self.wait_ready()
        return self

    def start_backends(self):
        for number in self.hosts:
            self.start_backend(number)
        for number in self.hosts:
            for name, word in ((f"server-{number}", "serving"), (f"agent-{number}", "accepts")):
                self.wait_for_program(name, lambda n=name, w=word: w in self.programs[n].output(),
                                      10)

    def start_backend(self, number):
        self.start_nginx(number)
        self.start_server(number)
        self.start_decapsulation(number)

    def start_decapsulation(self, number):
        self.program(f"agent-{number}", self.namespaces[f"b{number}"], self.binary("weir-agent"), "decap", "eth0")

    def start_server(self, number):
        self.program(f"server-{number}", self.namespaces[f"b{number}"], PYTHON, "-IS",
                     os.path.join(HERE, "server.py"), f"web-{number}", VIP4, VIP6)

    def start_nginx(self, number):
        directory = os.path.join(self.dir, f"nginx-{number}")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(HERE, "nginx.conf"), encoding="utf-8") as file:
            text = file.read()
        text = text.replace("NAME", f"web-{number}").replace("ROOT", self.files)
        text = text.replace("SHED", self.shed_folder(number))
        with open(os.path.join(directory, "nginx.conf"), "w", encoding="utf-8") as file:
            file.write("user root;\n" + text)
        self.program(f"nginx-{number}", self.namespaces[f"b{number}"], "nginx", "-p", directory,
                     "-c", "nginx.conf", "-e", "stderr")

    def shed_folder(self, number):
        """Returns the folder in which the hook of a backend's agent names connections that nginx should close."""
        return os.path.join(self.dir, f"shed-{number}")

    def start_dataplane(self):
        self.program("dataplane", self.lb, self.binary("weir-dataplane"), "--config",
                     self.config_path, "--run-dir", self.run_dir, *self.dataplane_options,
                     env=self.dataplane_env)
        self.wait_for_program("dataplane",
                              lambda: "ready:" in self.programs["dataplane"].output(), 20)

    def spawn_control(self):
        """Start control without waiting for it."""
        return self.program("control", self.lb, self.binary("weir-control"), "--config",
                            self.config_path, "--run-dir", self.run_dir, *self.control_options)

    def start_control(self):
        self.spawn_control()
        self.wait_for_program("control", lambda: self.api("version"), 10)

    def start_metrics(self, *options):
        """Start weir-metrics on the balancer's 127.0.0.1:9479, as a user with read access only."""
        self.program("metrics", self.lb, self.binary("weir-metrics"), "--run-dir", self.run_dir,
                     "--user", "daemon", "--group", "nogroup", *options)
        self.wait_for_program("metrics", lambda: "/metrics" in self.programs["metrics"].output(),
                              10)

    def wait_for_program(self, name, condition, timeout):
        """Wait until the program is ready. Fail at once, with its log, if it exits."""
        def ready():
            if not self.programs[name].alive():
                raise LabError(f"{name} ended (exit {self.programs[name].process.returncode}):\n"
                               + self.programs[name].tail())
            return condition()
        wait_for(f"{name} ready", ready, timeout)

    def wait_ready(self, timeout=15):
        """Wait until control is attached to a dataplane, and every backend is healthy, selected and
        has a resolved next hop."""
        wait_for("control attached to the dataplane",
                 lambda: self.api("version")["dataplane"]["attached"], timeout)
        wait_for("every backend usable", self.all_usable, timeout)
        self.wait_published(timeout)

    def wait_published(self, timeout=5):
        """Wait until control has published nothing for a while, because control shows a change
        before publishing it. Then wait until all workers have applied all changes."""
        seen = [None]

        def settled():
            segment = self.api("stats.show")["segment"]
            seen.append(segment["publications"])
            return seen[-1] == seen[-2] and segment["adopting_us"] == 0

        wait_for("control to have published what it shows", settled, timeout, 0.05)

    def all_usable(self):
        """Check that every backend that is not drained gets new flows; otherwise an AssertionError
        names the backend.

        Backends that are in no subset of a service get no new flows, nor do backups.
        """
        divided = {each["name"] for each in self.services if "subset" in each}
        for backend in self.backends():
            wanted = {"health": "healthy", "resolved": True}
            if backend["service"] not in divided:
                wanted["in_selection"] = backend["admin"] == "ready" and not backend["backup"]
            actual = {key: backend[key] for key in wanted}
            assert actual == wanted, f"{backend['service']}/{backend['name']}: {actual}"
        return True

    def kill_backend(self, number):
        """Send SIGKILL to nginx and its workers. The host stays up and refuses new connections."""
        self.programs[f"nginx-{number}"].kill()

    def stop_host(self, number):
        """Stop the host of a backend: the host sends nothing, not even an RST."""
        self.net.ip("link", "set", f"b{number}", "nomaster")

    def start_host(self, number):
        self.net.ip("link", "set", f"b{number}", "master", "br0")

    # --- requests --------------------------------------------------------------------------

    def api_connect(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(10)
        try:
            sock.connect(os.path.join(self.run_dir, "control", "control.sock"))
        except OSError:
            sock.close()
            raise
        return sock

    @staticmethod
    def api_ask(sock, command, **arguments):
        sock.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            block = sock.recv(1 << 16)
            if not block:
                raise ConnectionError("control closed the connection")
            answer += block
        return json.loads(answer)

    def api(self, command, **arguments):
        """Send a request to the control socket; return the result, or raise AssertionError."""
        with contextlib.closing(self.api_connect()) as sock:
            answer = self.api_ask(sock, command, **arguments)
        assert answer.get("ok"), f"{command} {arguments}: {answer}"
        return answer["result"]

    def backends(self, service_name=None):
        arguments = {"service": service_name} if service_name else {}
        return self.api("backend.show", **arguments)

    def backend(self, name, service_name="web"):
        return next(b for b in self.backends(service_name) if b["name"] == name)

    def weirctl(self, *args, check=True, timeout=10):
        """Run weirctl; return (exit status, standard output, standard error)."""
        with self.lb.inside():
            done = subprocess.run([self.binary("weirctl"), "--run-dir", self.run_dir, *args],
                                  capture_output=True, text=True, timeout=timeout, check=False)
        if check:
            assert done.returncode == 0, \
                f"weirctl {' '.join(args)}: exit {done.returncode}: {done.stdout}{done.stderr}"
        return done.returncode, done.stdout, done.stderr

    def drops(self):
        """Returns the drop counters that are not 0."""
        return {k: v for k, v in self.api("stats.show")["drops"].items() if v}

    def report(self):
        """Returns the state and logs of all programs as text, for the report of a failure."""
        out = []
        for name, program in self.programs.items():
            state = "running" if program.alive() else f"ended, exit {program.process.returncode}"
            tail = program.tail()
            if tail or not program.alive():
                out.append(f"--- {name}: {state}\n{tail}")
        if self.programs.get("control") and self.programs["control"].alive():
            for question in (("backend", "show"), ("stats", "show"), ("worker", "show"),
                             ("port", "show")):
                with contextlib.suppress(Exception):
                    code, stdout, stderr = self.weirctl(*question, check=False)
                    out.append(f"--- weirctl {' '.join(question)}: {code}\n{stdout}{stderr}")
        for name, namespace in self.namespaces.items():
            out.append(f"--- {name}: ip -s link\n" + sh("ip", "-s", "-n", namespace.name, "link",
                                                        check=False))
        return "\n".join(out)

    # --- files to download -----------------------------------------------------------------

    def make_file(self, name, size):
        """Create a file of random bytes that every backend serves below /files/. Returns its sha256."""
        return make_random_file(os.path.join(self.files, name), size)


def make_random_file(path, size):
    """Create a file of random bytes. Writes one random block repeatedly, each time rotated by one
    more byte, because reading all bytes from the kernel would be slower. Returns the sha256."""
    digest, random, turned = hashlib.sha256(), os.urandom(1 << 22), 0
    with open(path, "wb") as file:
        while size > 0:
            block = (random[turned:] + random[:turned])[:size]
            file.write(block)
            digest.update(block)
            size, turned = size - len(block), turned + 1
    return digest.hexdigest()


def main():
    """Remove labs of killed runs: lab.py --sweep."""
    if sys.argv[1:] != ["--sweep"]:
        sys.exit("usage: lab.py --sweep")
    sweep()


if __name__ == "__main__":
    main()
