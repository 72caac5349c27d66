# SPDX-License-Identifier: BSD-3-Clause
"""A hostile member of the group that has read access, for scenarios_access.py. Run as such a user:

    python3 - RUN_DIR CONFIG DATAPLANE_PID CONTROL_PID    try all attacks; print results as JSON
    python3 - RUN_DIR                                     take locks, and connect continuously

The result of each attempt is "done", or the error that prevented it.
"""
import ctypes
import errno
import fcntl
import glob
import json
import os
import socket
import sys

PTRACE_SEIZE = 0x4206
SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = 434, 438  # these numbers are the same on all architectures
libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Attempts:
    def __init__(self, run_dir, config, dataplane, control):
        self.run_dir, self.config = run_dir, config
        self.pids = {"dataplane": dataplane, "control": control}
        self.folders = {"": run_dir, "control ": run_dir + "/control"}
        self.results = {}

    def attempt(self, name, function, *args):
        """Record "done", or the name of the error."""
        try:
            function(*args)
            self.results[name] = "done"
        except OSError as error:
            self.results[name] = errno.errorcode.get(error.errno, str(error))

    def run(self):
        self.attempt("take the segment", self.take_segment)
        for mark, folder in self.folders.items():
            self.attempt(f"{mark}create", self.create, folder + "/mine")
            self.attempt(f"{mark}bind", self.bind, folder + "/mine.sock")
            self.attempt(f"{mark}mkdir", os.mkdir, folder + "/mine.d")
            for path in glob.glob(folder + "/*"):
                name = os.path.relpath(path, self.run_dir)
                self.attempt(f"unlink {name}", os.unlink, path)
                self.attempt(f"rename {name}", os.rename, path, path + ".old")
                self.attempt(f"chmod {name}", os.chmod, path, 0o777)
                self.attempt(f"write {name}", self.open, path, os.O_RDWR)
                if not os.path.isdir(path):
                    self.attempt(f"read {name}", self.open, path, os.O_RDONLY)
        self.attempt("write the configuration", self.open, self.config, os.O_RDWR)
        for name, pid in self.pids.items():
            self.process(name, int(pid))
        for place in ("/run/dpdk", "/dev/shm", "/dev/hugepages", "/var/run/dpdk"):
            for path in glob.glob(place + "/*weir*") + glob.glob(place + "/rtemap_*"):
                self.attempt(f"read {path}", self.open, path, os.O_RDONLY)

    def process(self, name, pid):
        self.attempt(f"list descriptors of {name}", os.listdir, f"/proc/{pid}/fd")
        for number in range(64):  # opening a memfd here would give access to its memory
            try:
                os.close(os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR))
                self.results[f"open a descriptor of {name}"] = "done"
            except OSError as error:
                self.results.setdefault(f"open a descriptor of {name}",
                                        errno.errorcode[error.errno])
        for file in ("mem", "maps", "environ"):
            self.attempt(f"read {file} of {name}", self.open, f"/proc/{pid}/{file}", os.O_RDONLY)
        self.attempt(f"map_files of {name}", os.listdir, f"/proc/{pid}/map_files")
        self.attempt(f"ptrace {name}", self.ptrace, pid)
        self.attempt(f"pidfd_getfd of {name}", self.pidfd_getfd, pid)
        self.attempt(f"kill {name}", os.kill, pid, 9)

    def take_segment(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(5)
            sock.connect(self.run_dir + "/dataplane.sock")
            answer, descriptors, _, _ = socket.recv_fds(sock, 4096, 64)
            if not descriptors:
                raise OSError(int.from_bytes(answer[20:24], sys.byteorder), "refused")

    @staticmethod
    def create(path):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))

    @staticmethod
    def open(path, flags):
        if flags == os.O_RDWR and os.path.isdir(path):
            flags = os.O_TMPFILE | os.O_RDWR
        os.close(os.open(path, flags))

    @staticmethod
    def bind(path):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path)

    @staticmethod
    def ptrace(pid):
        checked(libc.ptrace(PTRACE_SEIZE, pid, None, None))

    @staticmethod
    def pidfd_getfd(pid):
        pidfd = checked(libc.syscall(SYS_PIDFD_OPEN, pid, 0))
        for number in range(3, 64):
            result = libc.syscall(SYS_PIDFD_GETFD, pidfd, number, 0)
            if result >= 0:
                return
        checked(result)


def disturb(run_dir):
    """Take every lock, and connect as fast as possible, at least 2,000 times."""
    for folder in (run_dir, run_dir + "/control"):
        for path in [folder, *glob.glob(folder + "/*")]:
            try:
                fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass
    tried = 0
    kept = []
    while True:
        for name, kind in (("dataplane.sock", socket.SOCK_SEQPACKET),
                           ("control/control.sock", socket.SOCK_STREAM)):
            sock = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK)
            try:
                sock.connect(f"{run_dir}/{name}")
                kept = [*kept[-500:], sock]
            except OSError:
                sock.close()
        tried += 1
        if tried == 2000:
            print("2000 connections", flush=True)


def main():
    if len(sys.argv) == 2:
        disturb(sys.argv[1])
    attempts = Attempts(*sys.argv[1:])
    attempts.run()
    json.dump(attempts.results, sys.stdout)


main()
