#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The demonstration of scripts/demo: curl in one namespace, nginx in four, Weir between them.

The last line is "demo: <n> requests, <n> ok, <n> failed". Exits with 0 if only expected failures
occurred.
"""
import argparse
import glob
import json
import os
import shutil
import sys
import threading
import time

import clients
import netns
from lab import BACKENDS, VIP4, Lab, web
from netns import wait_for

WEIGHTS = {"web-1": 100, "web-2": 200, "web-3": 300, "web-4": 400}
REQUESTS = 2000
BATCH = 50
REFUSED = (7, 52, 56)  # curl's exit statuses: refused, closed or reset by the server
STATE = "/run/weir-lab-{}.json"
TTY = sys.stdout.isatty()

PICTURE = """
   client                     lb                               four backends
  +--------+   HTTP to    +---------------------+   IPIP    +----------------------+
  |  curl  | -----------> | weir-dataplane      | --------> | nginx  web-1 .. web-4|
  |        | 198.51.100.10| (DPDK, AF_XDP, veth)|           | weir-agent decap     |
  +--------+              |     ^ shared memory |           +----------------------+
       ^                  | weir-control        |                      |
       |                  +---------------------+                      |
       +--------------------------- direct replies --------------------+
"""


class Failure(Exception):
    """The demonstration did not work as expected."""


def bold(text):
    return f"\033[1m{text}\033[0m" if TTY else text


def section(number, title, explanation=""):
    print(f"\n{bold(f'{number}. {title}')}")
    for line in explanation.splitlines():
        print("   " + line)
    if explanation:
        print()


def indent(text):
    print("   " + text.rstrip("\n").replace("\n", "\n   "), flush=True)


def expect(condition, text):
    if not condition:
        raise Failure(text)


def progress(done, total):
    if TTY:
        filled = 40 * done // total
        end = "\n" if done >= total else ""
        print(f"\r   [{'#' * filled}{'.' * (40 - filled)}] {done}/{total}", end=end, flush=True)
    elif done % 500 == 0:
        print(f"   {done}/{total}", flush=True)


class Demo:
    def __init__(self, lab):
        self.lab = lab
        self.total = clients.Result()
        self.excused = 0

    # --- what is shown ----------------------------------------------------------------------

    def weirctl(self, *args):
        """Run a weirctl command and show it as in a terminal."""
        print(f"   {bold('$ weirctl ' + ' '.join(args))}")
        _, out, err = self.lab.weirctl(*args)
        indent(out + err)

    def run(self):
        section(1, "The lab", "Seven network namespaces of this machine; no packet leaves them.")
        print(PICTURE)
        self.weirctl("service", "show")
        self.weirctl("backend", "show")
        self.many_requests()
        self.drain()
        self.killed_backend()
        self.killed_control()

    def many_requests(self):
        section(2, f"{REQUESTS} requests, one per connection",
                "The balancer selects a backend for every new connection, by weight.\n"
                f"curl, {BATCH} requests per process, two processes at a time.")
        result, lock, todo = clients.Result(), threading.Lock(), [REQUESTS // BATCH]
        start = time.monotonic()

        def work():
            while True:
                with lock:
                    if todo[0] == 0:
                        return
                    todo[0] -= 1
                result.add(clients.curl_batch(self.lab.client, VIP4, BATCH))
                with lock:
                    progress(result.ok + result.failed, REQUESTS)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            todo[0] = 0
        seconds = time.monotonic() - start
        self.total.add(result)
        print(f"\n   {result.ok} ok, {result.failed} failed, in {seconds:.1f} s\n")
        print(f"   {'backend':8} {'weight':>6} {'expected':>11} {'slots':>7} {'actual':>6} {'':>7}")
        worst = 0.0
        for backend in self.lab.backends("web"):
            name = backend["name"]
            wanted = 100 * WEIGHTS[name] / sum(WEIGHTS.values())
            got = 100 * result.served[name] / max(1, result.ok)
            worst = max(worst, abs(got - wanted))
            print(f"   {name:8} {WEIGHTS[name]:6} {wanted:9.1f} % {backend['share_percent']:5.1f} %"
                  f" {result.served[name]:6} {got:5.1f} %  {'=' * round(got)}")
        expect(worst < 6, f"a backend's share is {worst:.1f} points off its weight")

    def drain(self):
        name_of_file, size = "movie", 24 << 20
        section(3, "Drain a backend under load",
                "A long download runs, and its backend is drained. New connections go to other\n"
                "backends; the download continues to its last byte.")
        digest = self.lab.make_file(name_of_file, size)
        download = clients.Download(self.lab.client, VIP4, f"/slow/{name_of_file}")
        name = download.backend()
        print(f"   {name} serves a download of {size >> 20} MB, 4 MB a second.\n")
        with Background(self.lab) as load:
            load.wait_for_more(100)
            self.weirctl("backend", "drain", f"web/{name}")
            drained = time.monotonic()
            load.wait_for_more(300)
            self.weirctl("backend", "show")
            after = load.since(drained)
            running = download.running()
            print(f"   since the drain: {after.ok} new connections, {after.served[name]} of them to"
                  f" {name}; the download is {'running' if running else 'over'}")
            status, received, sha256 = download.finish()
            intact = (status, received, sha256) == (0, size, digest)
            print(f"   download: {received} bytes, sha256 {sha256[:16]}... "
                  f"{'intact' if intact else 'WRONG, expected ' + digest[:16]}\n")
            self.weirctl("backend", "ready", f"web/{name}")
        download.stop()
        self.total.add(load.result())
        self.total.served[name] += intact
        expect(intact, f"the download through the drained backend ended with curl exit {status}")
        expect(running, "the download was over before the drain could be shown")
        expect(after.served[name] == 0, f"{name} got new connections while it drained")

    def killed_backend(self):
        victim = 3
        name = BACKENDS[victim - 1]
        section(4, f"Kill {name} with SIGKILL",
                "The health checks detect it (every 400 ms, three failures); then new connections\n"
                "avoid it.")
        with Background(self.lab) as load:
            load.wait_for_more(100)
            self.lab.kill_backend(victim)
            killed = time.monotonic()
            wait_for(f"{name} refusing",
                     lambda: self.lab.backend(name)["health"] == "refusing", 10)
            noticed = time.monotonic()
            load.wait_for_more(300)
            self.weirctl("backend", "show")
            after = load.since(noticed)
            print(f"   detected after {noticed - killed:.2f} s; since then {after.ok} connections,"
                  f" {after.failed} failed, {after.served[name]} to {name}")
            self.lab.start_nginx(victim)
            wait_for(f"{name} healthy", lambda: self.lab.backend(name)["health"] == "healthy", 10)
            back = time.monotonic()
            load.wait_for_more(200)
            again = load.since(back).served[name]
            print(f"   {name} was restarted and serves again: {again} connections\n")
        # Until a health check detects a dead backend, it refuses connections of clients. Such
        # requests do not count as failures.
        early = load.between(0, noticed)
        refused = [e for e in early.errors if any(f"curl exit {n}:" in e for n in REFUSED)]
        early.errors = [e for e in early.errors if e not in refused]
        excused = len(refused)
        self.excused += excused
        self.total.add(early)
        self.total.add(load.since(noticed))
        print(f"   {excused} requests were refused before the failure was detected; not counted below")
        expect(after.failed == 0, f"requests failed after {name} was seen dead: {after.errors[:3]}")
        expect(again > 0, f"{name} is back but gets no connections")

    def killed_control(self):
        section(5, "Kill weir-control with SIGKILL, and start it again",
                "Forwarding does not need it: the dataplane keeps using the shared tables.")
        found = clients.line_per_backend(self.lab.client, VIP4, BACKENDS,
                                         clients.KeepAlive)
        with Background(self.lab) as load:
            load.wait_for_more(50)
            self.lab.programs["control"].kill()
            dead = time.monotonic()
            print(f"   {bold('$ weirctl backend show')}")
            code, out, err = self.lab.weirctl("backend", "show", check=False)
            indent(f"{out}{err}(exit {code})")
            load.wait_for_more(300)
            alone = load.since(dead)
            print(f"   without control: {alone.ok} requests, {alone.failed} failed\n")
            self.lab.start_control()
            self.lab.wait_ready()
            load.wait_for_more(100)
            self.weirctl("backend", "show")
        clients.check_lines(found)
        print(f"   {len(found)} connections, one to each backend, stayed open, "
              "on the same backends")
        self.total.add(load.result())

    def finish(self):
        print()
        if self.excused:
            print(f"in addition, {self.excused} requests were refused by the killed backend "
                  "before the health checks detected it")
        for error in self.total.errors[:5]:
            print(f"failed: {error}")
        total = self.total
        print(f"demo: {total.ok + total.failed} requests, {total.ok} ok, {total.failed} failed",
              flush=True)


class Background:
    """Runs curl in batches of ten requests until stopped. Stores results by start time of their batch."""

    def __init__(self, lab):
        self.lab, self.batches = lab, []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, problem, *_):
        self.stopping.set()
        if problem is None:  # otherwise the lab is removed at once, which kills curl
            self.thread.join()

    def work(self):
        while not self.stopping.is_set():
            start = time.monotonic()
            self.batches.append((start, clients.curl_batch(self.lab.client, VIP4, 10)))

    def between(self, begin, end):
        result = clients.Result()
        for start, batch in list(self.batches):
            if begin <= start < end:
                result.add(batch)
        return result

    def since(self, moment):
        return self.between(moment, float("inf"))

    def result(self):
        return self.since(0)

    def wait_for_more(self, count):
        goal = len(self.batches) + count // 10 + 1
        wait_for(f"{count} more requests", lambda: len(self.batches) >= goal, 60)


def keep(lab, hugepages):
    """Leave the lab running, store what must be removed later, and print how to use the lab."""
    with open(STATE.format(os.getpid()), "w", encoding="utf-8") as file:
        json.dump({"namespaces": [n.name for n in lab.namespaces.values()], "dir": lab.dir,
                   "hugepages": hugepages}, file)
    weirctl = f"{lab.binary('weirctl')} --run-dir {lab.run_dir}"
    print(f"""
The lab keeps running. As root:

   {weirctl} backend show
   {weirctl} stats show --watch
   {weirctl} weight set web/web-1 1000
   ip netns exec {lab.client.name} curl http://{VIP4}/
   ip netns exec {lab.client.name} wrk -c 50 -d 10s http://{VIP4}/
   ip netns exec {lab.lb.name} bash

Configuration: {lab.config_path}, then `weirctl config reload`; logs: {lab.dir}/*.log
To stop and remove it: scripts/demo --end
""")


def end_kept():
    """Remove every kept lab. Returns the number of huge pages that they had reserved."""
    pages = 0
    for path in glob.glob(STATE.format("*")):
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
        for name in state["namespaces"]:
            netns.Namespace(name).remove()
        shutil.rmtree(state["dir"], ignore_errors=True)
        pages += state["hugepages"]
        os.unlink(path)
        print(f"removed the lab of {path}", file=sys.stderr)
    return pages


def demonstrate(options):
    lab = Lab(options.build, [web(WEIGHTS)], dies_with_us=not options.keep)
    demo, kept = Demo(lab), False
    try:
        lab.make()
        lab.start()
        problem = ""
        try:
            demo.run()
        except (Failure, AssertionError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            print(f"\n{lab.report()}\n\nthe demonstration failed: {problem}")
        elif options.keep:
            keep(lab, options.hugepages)
            kept = True
    finally:
        if not kept:
            lab.close()
    demo.finish()
    return 1 if problem or demo.total.failed else 0


def main():
    parser = argparse.ArgumentParser(description="Demonstrate Weir.")
    parser.add_argument("--build", default="build")
    parser.add_argument("--keep", action="store_true", help="leave the lab running")
    parser.add_argument("--end", action="store_true", help="remove labs that --keep left")
    parser.add_argument("--hugepages", type=int, default=0, help="number of huge pages to free at --end")
    options = parser.parse_args()
    netns.on_signals_raise()
    if options.end:
        print(end_kept())
        return 0
    netns.sweep()
    try:
        return demonstrate(options)
    except netns.LabError as error:
        print(f"\nthe lab does not work here: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as interrupt:
        print(f"\ninterrupted {interrupt}: everything was removed", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
