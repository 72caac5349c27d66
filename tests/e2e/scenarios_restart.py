# SPDX-License-Identifier: BSD-3-Clause
"""Backends that are restarted one by one, with and without announcements by agents."""
import contextlib
import re
import signal

import clients
from agents import Agents
from lab import VIP4, web
from netns import wait_for
from scenario import scenario

HOSTS = 8
MEGABYTE = 1 << 20
RATE = 4 * MEGABYTE  # nginx's rate limit below /slow/


def backends(number=HOSTS):
    return {f"web-{n}": 100 for n in range(1, number + 1)}


def service(**more):
    return web(backends(), policy={"name": "round-robin"}, **more)


class Downloads:
    """Makes slow downloads, `count` at a time, until stop() is called."""

    def __init__(self, lab, path, sha256, count):
        self.lab, self.path, self.sha256, self.count = lab, path, sha256, count
        self.running, self.ended, self.broken = [], 0, []

    def start_one(self):
        self.running.append(clients.Download(self.lab.client, VIP4, self.path))

    def look(self, refill=True):
        for download in [d for d in self.running if not d.running()]:
            self.running.remove(download)
            self.ended += 1
            if download.sha256 != self.sha256:
                self.broken.append((download.exit, download.size))
            download.stop()
        while refill and len(self.running) < self.count:
            self.start_one()

    def finish(self):
        for download in self.running:
            download.finish()
        self.look(refill=False)


def restart_nginx(lab, number, stop=signal.SIGTERM):
    program = lab.programs[f"nginx-{number}"]
    program.signal(stop)
    program.process.wait(20)
    lab.start_nginx(number)

    def answers():
        with contextlib.suppress(OSError):
            return clients.http_get(lab.namespaces[f"b{number}"], "127.0.0.1", "/healthz")
        return None
    wait_for(f"nginx {number}", answers, 10)


def wait_used(lab, number):
    wait_for(f"web-{number} to be used",
             lambda: lab.backend(f"web-{number}")["in_selection"], 20)


@contextlib.contextmanager
def wrk(lab):
    """Run wrk, with each request on a new connection. Yields a function that stops wrk and
    returns (requests, errors)."""
    program = lab.program("wrk", lab.client, "wrk", "-t1", "-c8", "-d300s", "--timeout", "10s",
                          "-H", "Connection: close", f"http://{VIP4}/")
    # wrk prints its results on SIGINT only if it has started before.
    wait_for("wrk to begin", lambda: sum(b["new_flows"] for b in lab.backends()) > 100, 10)

    def end():
        program.signal(signal.SIGINT)
        program.process.wait(20)
        text = program.output()
        assert " requests in " in text, f"wrk: exit {program.process.returncode}: {text}"
        requests = int(re.search(r"(\d+) requests in", text).group(1))
        errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)",
                           text)
        other = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        return requests, sum(map(int, errors.groups())) if errors else 0, \
            int(other.group(1)) if other else 0, text
    yield end
    if program.alive():
        program.kill()


@contextlib.contextmanager
def undisturbed_requests(lab):
    """Make requests and slow downloads. Check that no request fails within the block. Yields the Downloads,
    which the caller must check from time to time."""
    digest = lab.make_file("slow.bin", 6 * MEGABYTE)
    downloads = Downloads(lab, "/slow/slow.bin", digest, 6)
    downloads.look()
    with wrk(lab) as end:
        yield downloads
        requests, errors, bad, text = end()
    downloads.finish()
    assert requests > 1000 and errors == 0 and bad == 0, text
    assert downloads.ended >= len(lab.hosts) and not downloads.broken, downloads.broken
    print(f"{requests} requests and {downloads.ended} downloads: none failed")


@scenario(start=False, hosts=HOSTS, services=[service(agent={"interval_ms": 500})], seconds=300)
def rolling_restart_by_agents_fails_nothing(lab):
    """If eight nginx servers with agents are restarted one by one, no request and no download fails"""
    agents = Agents(lab, "--port", "80", "--interval", "30s")
    agents.start_lab()
    with undisturbed_requests(lab) as downloads:
        for number in lab.hosts:
            status = agents.drain(number)
            downloads.look()
            assert status == 0, f"agent {number} ended with {status}"
            left = lab.backend(f"web-{number}")
            assert left["health"] == "lame-duck", left
            restart_nginx(lab, number)
            agents.start(number)
            wait_used(lab, number)
            downloads.look()


@scenario(start=False, hosts=2,
          services=[web(backends(2), policy={"name": "round-robin"}, agent={"interval_ms": 500})])
def too_short_a_drain_breaks_the_longer_downloads(lab):
    """A drain of 2 s breaks the downloads of 6 s at the drained backend; downloads of 1 s complete"""
    agents = Agents(lab, "--port", "80", "--interval", "2s")
    agents.start_lab()
    digests = {"short": lab.make_file("short.bin", RATE), "long": lab.make_file("long.bin", 6 * RATE)}
    downloads = [(kind, clients.Download(lab.client, VIP4, f"/slow/{kind}.bin"))
                 for kind in ["short"] * 6 + ["long"] * 6]
    where = [(kind, download, download.backend()) for kind, download in downloads]
    assert agents.drain(1) == 0
    lab.kill_backend(1)
    for kind, download, backend in where:
        status, size, digest = download.finish()
        whole = digest == digests[kind]
        assert whole == (kind == "short" or backend != "web-1"), (kind, backend, status, size)
        download.stop()
    broken = sum(kind == "long" and backend == "web-1" for kind, _, backend in where)
    assert 0 < broken < 6, f"{broken} of the 6 long ones were at web-1"


@scenario(start=False, hosts=HOSTS, services=[service()], seconds=300)
def rolling_restart_by_checks_alone_breaks_requests(lab):
    """Without agents, requests to a stopped server fail, and new requests fail until checks detect the stop"""
    lab.start()
    digest = lab.make_file("slow.bin", 6 * MEGABYTE)
    downloads = Downloads(lab, "/slow/slow.bin", digest, 6)
    downloads.look()
    with clients.Load(lab.client, VIP4, threads=8) as load:
        for number in lab.hosts:
            restart_nginx(lab, number)
            wait_used(lab, number)
            downloads.look()
    downloads.finish()
    assert load.errors() and downloads.broken, "no download broke"
    print(f"{len(load.errors())} of {len(load.samples)} requests and {len(downloads.broken)} of "
          f"{downloads.ended} downloads failed")


NEW = {f"web-{number}" for number in range(5, 11)}


@scenario(start=False, hosts=10, services=[web(backends(4), policy={"name": "least-loaded"})])
def scale_out_to_servers_that_do_not_listen_yet(lab):
    """If 6 backends are added to the 4 existing backends before their servers listen, no request fails"""
    lab.start()
    for number in range(5, 11):
        lab.kill_backend(number)
    with clients.Load(lab.client, VIP4) as load:
        load.wait_for_more(200)
        lab.write_config([web(backends(10), policy={"name": "least-loaded"})])
        lab.weirctl("config", "reload")
        load.wait_for_more(400)
        assert not set(load.served()) & NEW, load.served()
        for number in range(5, 11):
            lab.start_nginx(number)
        for number in range(5, 11):
            wait_used(lab, number)
        load.wait_for_more(400)
    assert not load.errors(), load.errors()[:3]
    assert NEW <= set(load.served()), load.served()
