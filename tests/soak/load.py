# SPDX-License-Identifier: BSD-3-Clause
"""The load of a soak test: clients, floods, scrapes, commands, reloads."""
import collections
import os
import subprocess
import time

import clients
from lab import VIP4, VIP6
from netns import sh

CLIENT = "192.0.2.2"
METRICS = "http://127.0.0.1:9479"
FILE_BYTES = 8 << 20
# Intervals in seconds.
EVERY = {"requests": 1, "command": 0.7, "page": 1, "scrape": 5, "udp": 2, "download": 9, "reload": 13,
         "flood": 29}
CONNECTIONS = 16
# maximum number of attempts for a command whose output contains one of the texts in BUSY
ATTEMPTS = 5
BUSY = ("short of CPU time", "a worker did not answer in time")


class Load:
    def __init__(self, lab, commands):
        self.lab = lab
        self.digest = lab.make_file("soak", FILE_BYTES)
        self.done, self.failures = collections.Counter(), []
        self.due = dict.fromkeys(EVERY, 0.0)
        self.commands, self.turn, self.reloads = self.read(commands), 0, 0
        self.spare = None

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return [line.split() for line in file if line.strip() and line[0] != "#"]

    def __enter__(self):
        self.start_wrk()
        self.lines = clients.line_per_backend(self.lab.client, VIP6, ("web-1", "web-2"))
        return self

    def __exit__(self, *_):
        for line in self.lines.values():
            line.close()
        self.lab.programs["wrk"].stop()

    def start_wrk(self):
        """Start wrk, which opens new connections at the highest possible rate."""
        self.lab.program("wrk", self.lab.client, "wrk", "-t1", f"-c{CONNECTIONS}", "-d30s",
                         "--timeout", "5s", "-H", "Connection: close", f"http://{VIP4}/")

    def work_until(self, end):
        while time.monotonic() < end:
            now = time.monotonic()
            for kind, seconds in EVERY.items():
                if now >= self.due[kind]:
                    self.due[kind] = now + seconds
                    getattr(self, kind)()
                    self.done[kind] += 1
            if not self.lab.programs["wrk"].alive():
                self.start_wrk()
            time.sleep(0.05)  # pause between iterations, not a wait for a condition

    def fail(self, text):
        self.failures.append(text)

    # --- traffic --------------------------------------------------------------------------

    def requests(self):
        result = clients.curl_batch(self.lab.client, VIP4 if self.done["requests"] % 2 else VIP6, 5)
        for error in result.errors:
            self.fail(f"request: {error}")
        clients.check_lines(self.lines)

    def udp(self):
        session = clients.Udp(self.lab.client, VIP4)
        session.ask()
        session.ask()
        session.close()

    def download(self):
        load = clients.Download(self.lab.client, VIP4, "/files/soak", 60)
        if load.finish() != (0, FILE_BYTES, self.digest):
            self.fail(f"download: curl exit {load.exit}, {load.size} bytes")
        load.stop()

    def flood(self):
        """Send forged SYNs for a second."""
        flood = os.path.join(self.lab.build, "tests", "e2e", "flood")
        with self.lab.net.inside():
            sh(flood, "lb0", self.lab.mac(self.lab.lb, "lb0"), VIP4, "80", "syn", "1")

    # --- monitoring and changes -------------------------------------------------------

    def get(self, path):
        with self.lab.lb.inside():
            done = subprocess.run(["curl", *clients.CURL, "--fail", "--max-time", "10",
                                   METRICS + path], capture_output=True, check=False)
        if done.returncode != 0 or not done.stdout:
            self.fail(f"{path}: curl exit {done.returncode}")
        return done.stdout

    def scrape(self):
        if b"weir_" not in self.get("/metrics"):
            self.fail("/metrics has no metrics")

    def page(self):
        self.get("/" if self.done["page"] % 30 == 0 else "/status.json")

    def command(self):
        status, program, *arguments = self.commands[self.turn % len(self.commands)]
        self.turn += 1
        place = {"VIP4": VIP4, "CLIENT": CLIENT}
        for name, value in place.items():
            arguments = [argument.replace(name, value) for argument in arguments]
        command = [self.lab.binary(program), *arguments]
        if program == "weirctl":
            command[1:1] = ["--run-dir", self.lab.run_dir]
        for _ in range(ATTEMPTS):
            with self.lab.lb.inside():
                done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            if not any(text in done.stderr for text in BUSY):
                break
        if done.returncode != int(status):
            self.fail(f"{program} {' '.join(arguments)}: exit {done.returncode}: "
                      f"{done.stderr.strip()}")

    def reload(self):
        """Change a weight. Every second call also drains a backend and makes it ready again."""
        self.reloads += 1
        for service in self.lab.services[1:]:
            backends = service["backends"]
            backends[0]["weight"] = 100 + self.reloads % 7
            if self.reloads % 2 == 1:
                self.spare = backends.pop()
            else:
                backends.append({**self.spare})
        self.lab.write_config()
        code, _, err = self.lab.weirctl("config", "reload", check=False)
        if code != 0:
            self.fail(f"reload: {err}")

    # --- result ---------------------------------------------------------------------------

    def summary(self):
        stats = self.lab.api("stats.show")["workers"]
        return ", ".join(f"{count} {kind}" for kind, count in sorted(self.done.items())) + \
            f"; {stats['flow_new']} flows, {stats['forwarded']} packets forwarded"

    def problems(self):
        return [f"{len(self.failures)} failures: {self.failures[:5]}"] if self.failures else []
