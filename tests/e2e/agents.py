# SPDX-License-Identifier: BSD-3-Clause
"""weir-agents on the backends of a lab, and cgroups for their servers."""
import contextlib
import os
import secrets
import signal

from netns import LabError, wait_for

KEY_ID = 7


class Agents:
    """One `weir-agent run` per backend of the lab. start_lab() starts the agents and the programs of the
    lab. A scenario that starts these programs itself must set, before it writes the configuration:

        lab.extra = Agents.configuration(lab)
    """

    def __init__(self, lab, *options):
        self.lab, self.options = lab, options
        self.extra = {}  # additional options of single agents, by the number of the backend

    @staticmethod
    def configuration(lab):
        """Write the key file. Returns the part of the configuration that refers to it."""
        path = os.path.join(lab.dir, "agent.keys")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "w",
                  encoding="ascii") as file:
            file.write(f"{KEY_ID} {secrets.token_hex(32)}\n")
        nogroup = os.stat("/dev/null").st_gid if os.geteuid() else 65534
        os.chown(path, 0, nogroup)
        return {"agents": {"key_file": path}}

    def name(self, number):
        return f"speaker-{number}"

    def run_dir(self, number):
        return os.path.join(self.lab.dir, self.name(number))

    def start(self, number, *more):
        name = self.name(number)
        program = self.lab.program(
            name, self.lab.namespaces[f"b{number}"], self.lab.binary("weir-agent"), "run",
            "--key-file", os.path.join(self.lab.dir, "agent.keys"), "--user", "nobody",
            "--run-dir", self.run_dir(number), *self.options, *self.extra.get(number, ()), *more)
        self.lab.wait_for_program(
            name, lambda: os.path.exists(os.path.join(self.run_dir(number), "agent.sock")), 10)
        return program

    def start_all(self):
        for number in self.lab.hosts:
            self.start(number)

    def start_lab(self):
        """Start everything, and wait until the balancer has an answer from each agent."""
        self.lab.extra = self.configuration(self.lab)
        self.lab.write_config()
        self.lab.start_backends()
        self.start_all()
        self.lab.start_dataplane()
        self.lab.start_control()
        self.lab.wait_ready()
        self.wait_answered()
        return self

    def wait_answered(self, numbers=None, service="web", timeout=20):
        """Wait until the balancer has an answer from each agent."""
        names = {f"web-{number}" for number in numbers or self.lab.hosts}

        def reported():
            return names <= {row["backend"] for row in self.lab.api("health.show", service=service)
                             if row["word"] == "ready"}
        wait_for(f"the balancer to have reports of {', '.join(sorted(names))}", reported, timeout)

    def drain(self, number, timeout=60):
        """Send SIGTERM and wait until the agent exits. Returns the exit status."""
        program = self.lab.programs[self.name(number)]
        program.signal(signal.SIGTERM)
        program.process.wait(timeout)
        return program.process.returncode


def mounts():
    """Returns {controller of cgroup v1, or "unified" for v2: mount point}."""
    found = {}
    with open("/proc/mounts", encoding="ascii") as file:
        for line in file:
            _, path, kind, options = line.split()[:4]
            if kind == "cgroup2":
                found["unified"] = path
            elif kind == "cgroup":
                found.update({each: path for each in options.split(",")
                              if each in ("cpu", "cpuacct")})
    return found


class Cgroups:
    """A cgroup with a quota of CPU time for each backend; cgroup v1 or v2, depending on the machine."""

    PERIOD_US = 20000

    def __init__(self, lab):
        self.lab, self.folders = lab, {}
        self.mounts = mounts()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for folders in self.folders.values():
            for folder in folders:
                self.empty(folder)
                wait_for(f"no process in {folder}", lambda f=folder: not os.rmdir(f), 10)

    @staticmethod
    def empty(folder):
        with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
            for pid in file.read().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def make(self, number, cpus=None):
        """Create the cgroup of a backend. Returns the options of weir-agent for this cgroup."""
        name = f"weir-{os.getpid()}-{number}"
        kinds = ("cpu", "cpuacct") if "cpu" in self.mounts else ("unified",)
        folders = []
        for path in dict.fromkeys(self.mounts[kind] for kind in kinds):
            folder = os.path.join(path, name)
            os.mkdir(folder)
            folders.append(folder)
        self.folders[number] = folders
        if cpus is not None:
            self.limit(number, cpus)
        return [each for folder in folders for each in ("--cgroup", folder)]

    def limit(self, number, cpus):
        quota = int(cpus * self.PERIOD_US)
        for folder in self.folders[number]:
            if os.path.exists(os.path.join(folder, "cpu.cfs_quota_us")):
                self.write(folder, "cpu.cfs_period_us", self.PERIOD_US)
                self.write(folder, "cpu.cfs_quota_us", quota)
                return
            if os.path.exists(os.path.join(folder, "cpu.max")):
                self.write(folder, "cpu.max", f"{quota} {self.PERIOD_US}")
                return
        raise LabError("no cgroup of this machine can limit CPU time")

    def add(self, number, pid):
        for folder in self.folders[number]:
            self.write(folder, "cgroup.procs", pid)

    def used(self, number):
        """Returns the CPU time of the processes in a backend's cgroup, in seconds."""
        for folder in self.folders[number]:
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(folder, "cpuacct.usage"), encoding="ascii") as file:
                    return int(file.read()) / 1e9
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(folder, "cpu.stat"), encoding="ascii") as file:
                    values = dict(line.split() for line in file)
                if "usage_usec" in values:
                    return int(values["usage_usec"]) / 1e6
        raise LabError("no cgroup of this machine shows CPU time")

    @staticmethod
    def write(folder, name, value):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(str(value))


