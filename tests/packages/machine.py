# SPDX-License-Identifier: BSD-3-Clause
"""Debian machines for the tests of the packages. systemd boots in a container (systemd-nspawn) with
a separate network namespace; its root is an overlay over a minimal Debian root.

The minimal root is not changed: all changes are written to the overlay of the machine, which is
removed at the end.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))

from netns import Namespace, sh, wait_for  # noqa: E402

ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
               "DEBIAN_FRONTEND=noninteractive")
BOOT_S = 120
COMMAND_S = 600


class Machine:
    def __init__(self, name, base, folder, log):
        """Create the root as an overlay over base. Install packages with in_chroot() before
        boot()."""
        self.name, self.log = name, log
        self.folder = f"{folder}/{name}"
        self.root = self.folder + "/root"
        self.nspawn = self.leader = None
        for part in ("root", "upper", "work"):
            os.makedirs(f"{self.folder}/{part}")
        sh("mount", "-t", "overlay", "overlay", "-o",
           f"lowerdir={base},upperdir={self.folder}/upper,workdir={self.folder}/work", self.root)
        self.net = Namespace(f"weir-{os.getpid()}-{name}").create()

    def copy(self, *paths):
        for path in paths:
            shutil.copy(path, self.root + "/root")

    def in_chroot(self, command):
        """Run a command before boot(). It uses the network of the host, for apt. Returns the
        output."""
        script = (f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev && "
                  f"exec env -i {' '.join(ENVIRONMENT)} chroot {self.root} /bin/bash -c "
                  f"'cd /root && exec \"$@\"' test \"$@\"")
        shutil.copy("/etc/resolv.conf", self.root + "/etc/resolv.conf")
        return self.finish(["unshare", "--mount", "/bin/bash", "-ec", script, "test",
                            "/bin/bash", "-ec", command], command, 0)

    def boot(self):
        out = open(self.log, "ab")
        self.nspawn = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "-D", self.root, "--boot", "--register=no", "--keep-unit",
             f"--network-namespace-path={self.net.path}", "--capability=all",
             "--system-call-filter=bpf perf_event_open",
             f"--machine={self.net.name}", "--console=read-only", "--resolv-conf=off",
             "--link-journal=no"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        out.close()
        self.leader = wait_for(f"{self.name}: init of the container", self.find_leader, BOOT_S)
        wait_for(f"{self.name}: boot", self.is_up, BOOT_S, interval=0.2)

    def find_leader(self):
        """Returns the PID of the machine's init, in the PID namespace of the test. Children of
        systemd-nspawn that only prepare the container have other names."""
        with open(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children",
                  encoding="ascii") as file:
            for pid in file.read().split():
                with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                    if comm.read().strip() == "systemd":
                        return int(pid)
        return None

    def is_up(self):
        if self.nspawn.poll() is not None:
            raise SystemExit(f"{self.name}: the container ended: see {self.log}")
        state = self.run("systemctl is-system-running", status=None)
        return state.strip() in ("running", "degraded")

    def run(self, command, status=0):
        """Run a bash command in the container. status: expected exit status; None = any."""
        return self.finish(["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-r",
                            "-w", "/usr/bin/env", "-i", *ENVIRONMENT, "/bin/bash", "-c",
                            "cd /root; " + command], command, status)

    def finish(self, words, command, status):
        done = subprocess.run(words, text=True, check=False, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_S)
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"# {self.name}: {command}\n{done.stdout}(exit {done.returncode})\n")
        if status is not None and done.returncode != status:
            raise AssertionError(f"{self.name}: {command}: exit {done.returncode}: {done.stdout}")
        return done.stdout

    def property(self, unit, name):
        return self.run(f"systemctl show --value -p {name} {unit}").strip()

    def pid(self, unit):
        return int(self.property(unit, "MainPID"))

    def journal(self, unit):
        return self.run(f"journalctl --no-pager -o cat -u {unit} || true")

    def close(self):
        if self.nspawn is not None and self.nspawn.poll() is None:
            with contextlib.suppress(ProcessLookupError, TypeError):
                os.kill(self.leader, signal.SIGRTMIN + 4)  # signal to systemd: power off
            try:
                self.nspawn.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()
        self.net.remove()
        sh("umount", self.root, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Network:
    """Hosts on one link: a bridge, and for each host a namespace with the interface eth1."""

    def __init__(self):
        self.switch = Namespace(f"weir-{os.getpid()}-switch").create()
        self.switch.ip("link", "add", "br0", "type", "bridge")
        self.switch.ip("link", "set", "br0", "up")
        self.own = [self.switch]

    def host(self, name):
        net = Namespace(f"weir-{os.getpid()}-{name}").create()
        self.own.append(net)
        return net

    def attach(self, net, *addresses, interface="eth1"):
        port = re.sub(r"\W", "", net.name.rpartition("-")[2])
        self.switch.ip("link", "add", port, "type", "veth", "peer", "name", interface, "netns",
                       net.name)
        self.switch.ip("link", "set", port, "master", "br0", "up")
        net.ip("link", "set", interface, "up")
        for address in addresses:
            net.ip("address", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))
        # Disable checksum offload. Use one receive queue, from which AF_XDP receives all packets.
        for place, device in ((self.switch, port), (net, interface)):
            place.run("ethtool", "-K", device, "tx", "off", "txvlan", "off")
        net.run("ethtool", "-L", interface, "rx", "1", check=False)

    def close(self):
        for net in self.own:
            net.remove()
