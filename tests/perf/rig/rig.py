# SPDX-License-Identifier: BSD-3-Clause
"""The rig: a generator on one CPU and a dataplane on another CPU, connected by shared memory.

    CPU 0  rig-generator  ==== memif or vhost-user ====  weir-dataplane worker  CPU 1
             sends flows to the VIP  ------------------>   picks a backend,
             receives IPv4 in IPv4   <------------------   encapsulates

testpmd (macswap) can replace the dataplane, to measure the maximum rate of the rig itself. The
generator can also use real ports, with a dataplane on another machine.
"""
import contextlib
import glob
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from processes import Process, RigError, schedstat
from search import Trial

GATEWAY_MAC = "02:00:00:00:00:01"
FCS = 4
ENCAPSULATION = 20
NOISE = 0.01  # maximum share of time without a CPU; a trial with a larger share is noisy
NEAR_NS = 200  # maximum round trip of a cache line between two CPUs that share an L3 cache
STATE_TRIES = 20  # maximum number of repeated trials until the CPUs have the requested placement
QUIET_SHARE_MIN = 0.2
FLOWS_MIN = 65536


def binary(build, name):
    for folder in ("dataplane", "control/daemon", "tests/perf/rig", ""):
        path = os.path.join(build, folder, name)
        if os.path.isfile(path):
            return path
    raise RigError(f"{name} is not in {build}: build it first (ninja -C {build})")


def free_huge_bytes():
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
                  encoding="ascii") as file:
            return int(file.read()) << 21
    return 0


class Rig:
    def __init__(self, options):
        self.options = options
        self.processes, self.dir, self.trials = {}, None, 0
        self.name = f"rig-{os.getpid()}"

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
        self.dir = tempfile.mkdtemp(prefix="weir-rig-")
        os.chmod(self.dir, 0o755)  # control reads its configuration as user nobody
        self.run_dir = os.path.join(self.dir, "run")
        os.mkdir(self.run_dir)
        starts = [self.start_dataplane, self.start_generator]
        if self.options.dut == "elsewhere":
            starts = [self.start_generator]
        elif self.device_of("dataplane")[2]:
            starts.reverse()
        for start in starts:
            start()
        if self.options.dut == "weir":
            self.start_control()
        self.ask("link seconds=20", 30)
        if self.options.dut == "weir":
            self.wait_for_table()

    def close(self):
        # Stop the receiving process first. memif frees its memory when its peer exits; a process
        # that still polled this memory would crash.
        for name in ("control", "dataplane", "generator"):
            if name in self.processes:
                self.processes[name].stop()
        self.processes = {}
        if self.dir and not self.options.keep:
            shutil.rmtree(self.dir, ignore_errors=True)
            # A killed DPDK process leaves its runtime files behind.
            for left in glob.glob(f"/run/dpdk/*{self.name}-*"):
                shutil.rmtree(left, ignore_errors=True)
        self.dir = None

    def prefix(self, name):
        return f"{self.name}-{name}"

    # --- devices --------------------------------------------------------------------------

    def device_of(self, who):
        """Returns the name and the devargs of the port of "dataplane" or "generator", and whether
        the other process must start first."""
        options, path = self.options, os.path.join(self.dir, "link.sock")
        if options.device == "vhost":
            if who == "dataplane":
                return ("net_virtio_user0", f"net_virtio_user0,path={path},mac={options.mac},"
                        f"queue_size={options.ring}", True)
            return "net_vhost0", f"net_vhost0,iface={path}", False
        server = (options.memif_server == "dataplane") == (who == "dataplane")
        devargs = f"net_memif0,role={'server' if server else 'client'},socket={path}," \
                  f"socket-abstract=no,rsize={options.ring.bit_length() - 1}"
        if who == "dataplane":
            devargs += f",mac={options.mac}"
        if options.zero_copy and not server:
            devargs += ",zero-copy=yes"
        return "net_memif0", devargs, not server

    def link_exists(self):
        return os.path.exists(os.path.join(self.dir, "link.sock"))

    def eal(self, name, cpu, megabytes):
        """Returns the EAL arguments of a process other than weir-dataplane."""
        huge = self.options.pages == "huge" or \
            (self.options.pages == "auto" and free_huge_bytes() > (megabytes + 16) << 20)
        memory = ["--in-memory"] if huge else ["--no-huge", "--no-shconf", "-m", str(megabytes)]
        who = "generator" if name == "generator" else "dataplane"
        devices = ["--no-pci", "--iova-mode=va", f"--vdev={self.device_of(who)[1]}"]
        if self.options.dut == "elsewhere":
            devices = [f"--allow={port}" for port in self.options.ports]
        return [*memory, *devices, "--no-telemetry", "--log-level=warning",
                f"--file-prefix={self.prefix(name)}", "--lcores", cpu]

    # --- programs -------------------------------------------------------------------------

    def start(self, name, *command, talk=False):
        self.processes[name] = Process(name, command, self.dir, talk, self.options.priority)
        return self.processes[name]

    def start_generator(self):
        elsewhere = self.options.dut == "elsewhere"
        names = self.options.ports if elsewhere else [self.device_of("generator")[0]]
        process = self.start("generator", binary(self.options.build, "rig-generator"),
                             *self.eal("generator", f"0@{self.options.cpus[0]}", 64), "--",
                             names[0], names[-1],
                             "plain" if self.options.dut == "testpmd" else "ipip", talk=True)
        if not elsewhere and not self.device_of("generator")[2]:
            process.wait_until(self.link_exists, "socket")

    def start_dataplane(self):
        if self.options.dut == "testpmd":
            self.start_testpmd()
            return
        self.write_config()
        # With these options the dataplane shares its memory with the other process. This needs one
        # file descriptor for each memory segment.
        lends = self.options.zero_copy or self.options.device == "vhost"
        extra = "--single-file-segments" if lends else ""
        process = self.start("dataplane", binary(self.options.build, "weir-dataplane"),
                             "--config", self.config_path(), "--run-dir", self.run_dir,
                             "--steer-object", "none", "--eal", extra, *self.group(),
                             *self.control_user())
        process.wait_until(lambda: "ready:" in process.output(), "ready")

    def start_testpmd(self):
        cpus = self.options.cpus
        process = self.start("dataplane", "dpdk-testpmd",
                             *self.eal("testpmd", f"0@{cpus[0]},1@{cpus[1]}", 256), "--",
                             "--forward-mode=macswap", "--auto-start", "--burst=64",
                             "--rxd=1024", "--txd=1024", "--total-num-mbufs=8192",
                             "--stats-period=3600")
        process.wait_until(lambda: "Statistics for port" in process.output() or
                           "Port statistics" in process.output(), "ready")

    def start_control(self):
        user = ["--user", "nobody"] if os.geteuid() == 0 else []
        process = self.start("control", binary(self.options.build, "weir-control"), "--config",
                             self.config_path(), "--run-dir", self.run_dir, *user, *self.group())
        process.wait_until(lambda: os.path.exists(self.control_socket()), "control socket")

    def control_socket(self):
        return os.path.join(self.run_dir, "control", "control.sock")

    @staticmethod
    def group():
        """Returns the option for the group of weir-control's user. If root starts the rig,
        weir-control runs as user nobody."""
        return ["--group", "nogroup"] if os.geteuid() == 0 else []

    @staticmethod
    def control_user():
        return ["--control-user", "nobody"] if os.geteuid() == 0 else []

    def config_path(self):
        return os.path.join(self.dir, "weir.json")

    def write_config(self):
        options = self.options
        first = ipaddress.IPv4Address("10.0.0.11")
        config = {
            "instance": {"name": self.name},
            "ports": [{"name": "rig", "device": self.device_of("dataplane")[1],
                       "mtu": self.mtu(), "gateway_mac": GATEWAY_MAC,
                       "source_ipv4": "10.0.0.2"}],
            "workers": {"cores": [options.cpus[1]], "idle": options.idle},
            "flow_table": {"flows_per_worker": max(FLOWS_MIN, options.flows),
                           "half_open_percent": 100},
            "services": [{
                "name": "rig", "forwarding": "ipip", "policy": {"name": options.policy},
                "binds": [{"address": options.vip, "protocol": options.protocol,
                           "port": options.vip_port}],
                "backends": [{"name": f"b{n}", "address": str(first + n)}
                             for n in range(options.backends)]}]}
        with open(self.config_path(), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)

    def mtu(self):
        return 1500 if self.options.device == "memif" else 1600

    def largest_frame(self):
        """Returns the size, including FCS, of the largest frame that fits the port's MTU after
        encapsulation."""
        if self.options.dut != "weir":
            return 1518
        return min(self.mtu() - ENCAPSULATION, 1500) + 14 + FCS

    # --- queries --------------------------------------------------------------------------

    def ask(self, line, seconds):
        answer = json.loads(self.processes["generator"].ask(line, seconds))
        if "error" in answer:
            raise RigError(f"generator: {answer['error']}\n" + self.logs())
        return answer

    def logs(self):
        return "\n".join(process.tail() for process in self.processes.values())

    def api(self, command):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.settimeout(10)
            sock.connect(self.control_socket())
            sock.sendall(json.dumps({"command": command}).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                block = sock.recv(1 << 16)
                if not block:
                    raise RigError("control closed the connection")
                answer += block
        answer = json.loads(answer)
        if not answer.get("ok"):
            raise RigError(f"control: {command}: {answer}")
        return answer["result"]

    def wait_for_table(self):
        control = self.processes["control"]
        control.wait_until(
            lambda: self.api("version")["dataplane"]["attached"] and
            [s["eligible"] for s in self.api("service.show")] == [self.options.backends] and
            all(b["resolved"] and b["in_selection"] for b in self.api("backend.show")),
            "table published")

    def counters(self):
        """Returns the counters of the worker, and the CPU and waiting times of worker and
        generator."""
        result = {}
        if self.options.dut == "weir":
            result = {key: value for key, value in self.api("worker.show")[0].items()
                      if isinstance(value, int) and not isinstance(value, bool)}
        for name in {"generator", "dataplane"} & set(self.processes):
            ran, waited = schedstat(self.processes[name].busiest_thread())
            result[f"{name}_ran_ns"], result[f"{name}_waited_ns"] = ran, waited
        return result

    # --- trials ---------------------------------------------------------------------------

    def traffic(self, size):
        """Configure the packets of the next trials, and open all flows. size: frame size in bytes,
        including FCS."""
        options = self.options
        self.ask(f"traffic protocol={options.protocol} frame={size - FCS} "
                 f"flows={options.flows} vip={options.vip} port={options.vip_port} "
                 f"mac={options.mac}", 10)
        return self.open_flows()

    def open_flows(self):
        """Send a SYN and then data in each flow, so that all flows are established. If too many
        packets are lost, for example because the machine is busy, try again at a lower rate.
        Returns the number of lost packets in the last attempt."""
        flows = self.options.flows
        for rate in (1000000, 500000, 200000, 200000, 200000):
            for kind in ("syn", "data"):
                result = self.trial(rate, flows / rate + 5, packets=flows, kind=kind,
                                    order="turn", verify=1)
                if result["broken"] or result["unexpected"]:
                    raise RigError(f"wrong packets were received: {result}")
            left = flows - result["received"]
            if left <= flows * 0.001:
                return left
        if left > flows / 2:
            raise RigError(f"{left} of {flows} packets did not come back:\n{self.logs()}")
        return left

    def trial(self, rate, seconds, **more):
        """Run one trial; rate 0 = full speed. Returns the results of the trial."""
        result = self.try_once(rate, seconds, **more)
        for _ in range(STATE_TRIES):
            if self.options.state in (None, result["state"]) or "packets" in more:
                break
            result = self.try_once(rate, seconds, **more)
        return result

    def try_once(self, rate, seconds, **more):
        self.trials += 1
        words = {"number": self.trials, "rate": rate, "seconds": seconds,
                 "burst": self.options.burst, **more}
        distances = [self.distance()]
        before = self.counters()
        began = time.monotonic()
        result = self.ask("trial " + " ".join(f"{k}={v}" for k, v in words.items()),
                          seconds + 30)
        took = time.monotonic() - began
        after = self.counters()
        distances.append(self.distance())
        delta = {key: after[key] - before.get(key, 0) for key in after}
        result["rate"] = rate
        result["distance_ns"] = distances
        result["state"] = state_of(distances)
        judge(result, delta, took)
        return result

    def distance(self):
        """Returns the round-trip time in ns of a cache line between the two CPUs, or None if the
        CPUs were too busy."""
        if self.options.dut == "elsewhere":
            return None
        return self.ask(f"distance cpu={self.options.cpus[1]}", 10)["distance_ns"]

    def searched(self, seconds):
        """Returns a trial function for search.maximum."""
        def run(rate):
            result = self.trial(rate, seconds)
            # If there was almost no undisturbed time, use the total loss.
            quiet = self.options.quiet and result["quiet_share"] > QUIET_SHARE_MIN
            return Trial(result["offered_pps"], result["quiet_loss" if quiet else "loss"],
                         result["noisy"], result)
        return run


def state_of(distances):
    """Returns how the host has placed the virtual CPUs: near, far, moved or unknown. distances:
    measured before and after a trial."""
    states = {"near" if ns <= NEAR_NS else "far" for ns in distances if ns is not None}
    if len(states) > 1:
        return "moved"
    return states.pop() if states else "unknown"


def judge(result, delta, took):
    """Add derived values to the result of a trial. delta: counter differences; took: duration in
    seconds."""
    offered, seconds = result["offered"], result["seconds"]
    result["offered_pps"] = offered / seconds
    result["received_pps"] = result["received_in_time"] / seconds
    result["lost"] = offered - result["received"]
    result["loss"] = max(0.0, result["lost"] / offered) if offered else 0.0
    # quiet_loss is the share of packets refused in undisturbed time, plus the share of packets lost
    # at any time after the ring accepted them.
    refused = result["quiet_refused"] / max(1, result["quiet_offered"])
    behind = max(0, result["sent"] - result["received"]) / max(1, offered)
    result["quiet_loss"] = refused + behind
    result["quiet_share"] = 1 - result["disturbed_slices"] / result["slices"]
    result["mean_burst"] = result["received_in_time"] / max(1, result["polls_with"])
    noise = {"generator": result["away_ns"] / seconds / 1e9,
             "dataplane": delta.get("dataplane_waited_ns", 0) / took / 1e9}
    result["noise"] = noise
    result["dataplane_ran"] = delta.get("dataplane_ran_ns", 0) / took / 1e9
    result["noisy"] = any(share > NOISE for share in noise.values())
    # If the generator was late although it had its CPU, the requested rate is too high for it.
    result["generator_late"] = result["skipped"] / max(1, offered + result["skipped"])
    if "busy_cycles" in delta:
        cycles = delta["busy_cycles"] + delta["idle_cycles"]
        result["dataplane"] = {
            "rx_packets": delta["rx_packets"], "forwarded": delta["forwarded"],
            "dropped": delta["dropped"],
            "busy_percent": 100 * delta["busy_cycles"] / max(1, cycles),
            "cycles_per_packet": delta["busy_cycles"] / max(1, delta["rx_packets"])}


def lscpu():
    done = subprocess.run(["lscpu", "-J"], capture_output=True, text=True, check=False)
    fields = {}
    with contextlib.suppress(ValueError, KeyError):
        for row in json.loads(done.stdout)["lscpu"]:
            fields[row["field"].rstrip(":")] = row["data"]
    return fields
