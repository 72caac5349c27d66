# SPDX-License-Identifier: BSD-3-Clause
"""Backups get new flows when no other backend can, or too few can; existing flows keep their backend."""
import time

import clients
from lab import BACKENDS, VIP4, VIP6, backend_address, web
from netns import wait_for
from scenario import scenario

# The longest time until a refused check is counted `fall` times (3), plus one check in progress and
# the publication. Options of the health check of web() in lab.py.
DETECTION_S = 4 * 0.4 + 0.5


def with_backups(count, **more):
    """The service web, whose last `count` backends are backups."""
    backends = [{"name": name, "address": backend_address(name.rpartition("-")[2]),
                 **({"backup": True} if name in BACKENDS[-count:] else {})} for name in BACKENDS]
    return web(backends=backends, **more)


def on_backups(lab):
    return lab.api("service.show", service="web")[0]["on_backups"]


def served_by(lab, count=200):
    """Returns the backends of `count` requests, none of which failed."""
    result = clients.curl_batch(lab.client, VIP4, count)
    assert result.ok == count, result.errors[:5]
    return set(result.served)


def takeovers(lab):
    return [event["why"] for event in lab.api("health.history") if event["source"] == "backups"]


@scenario(short=True, services=[with_backups(2)])
def backups_take_over(lab):
    """All primary backends die: requests fail at most until that is detected; later ones return to them, downloads stay"""
    size = 24 << 20
    digest = lab.make_file("long", size)
    assert served_by(lab) == {"web-1", "web-2"}
    with clients.Load(lab.client, VIP6) as load:
        load.wait_for_more(50)
        assert set(load.served()) == {"web-1", "web-2"}, load.served()
        assert not load.errors(), load.errors()[:5]
        # at the start, the first check of a backup may pass before those of the primary backends
        earlier = len(takeovers(lab))
        killed = time.monotonic()
        lab.kill_backend(1)
        lab.kill_backend(2)
        wait_for("backups in use", lambda: on_backups(lab), 10)
        detected = time.monotonic()
        assert detected - killed < DETECTION_S, detected - killed
        since = time.monotonic()
        load.wait_for_more(400)
        assert not load.errors(since), load.errors(since)[:5]
        assert set(load.served(since)) == {"web-3", "web-4"}, load.served(since)
        code, text, _ = lab.weirctl("status", check=False)
        assert code == 1 and "on backups: web" in text, text
        download = clients.Download(lab.client, VIP4, "/files/long", held=True)
        assert download.backend() in ("web-3", "web-4")
        lab.start_nginx(1)
        lab.start_nginx(2)
        wait_for("all primary backends to be back",
                 lambda: all(lab.backend(name)["in_selection"] for name in ("web-1", "web-2")), 10)
        assert not on_backups(lab)
        lab.wait_published()
        back = time.monotonic()
        load.wait_for_more(400)
        assert set(load.served(back)) == {"web-1", "web-2"}, load.served(back)
        assert not load.errors(since), load.errors(since)[:5]
    assert download.running(), "the download ended before anything could be shown"
    assert download.finish() == (0, size, digest)
    events = takeovers(lab)[earlier:]
    assert sorted(events) == sorted([
        "runs on its backups: 0 of 2 primary backends are eligible",
        next(event for event in events if event.startswith("no longer runs on its backups: "))]), events
    assert lab.weirctl("status")[0] == 0


@scenario(services=[with_backups(1, backup_below_percent=60)])
def backups_help_below_a_share(lab):
    """With backup_below_percent 60, backups get flows beside the primary backends when one of three is left"""
    assert served_by(lab) == {"web-1", "web-2", "web-3"}
    lab.weirctl("backend", "drain", "web/web-1")
    assert served_by(lab) == {"web-2", "web-3"}
    assert "runs on its backups" in lab.weirctl("backend", "drain", "web/web-2")[1]
    assert served_by(lab) == {"web-3", "web-4"}
    lab.kill_backend(3)
    wait_for("web-3 refusing", lambda: lab.backend("web-3")["health"] == "refusing", 10)
    lab.wait_published()
    assert served_by(lab) == {"web-4"}
    lab.weirctl("backend", "ready", "web/web-1")
    assert served_by(lab) == {"web-1", "web-4"}
    lab.weirctl("backend", "ready", "web/web-2")
    assert served_by(lab) == {"web-1", "web-2"}


@scenario(services=[with_backups(2)])
def backups_survive_restarts_and_reloads(lab):
    """A restart of control keeps the backups in use; a reload that removes all primary backends calls them"""
    for number in (1, 2):
        lab.kill_backend(number)
    wait_for("backups in use", lambda: on_backups(lab), 10)
    with clients.Load(lab.client, VIP4) as load:
        load.wait_for_more(50)
        since = time.monotonic()
        lab.programs["control"].kill()
        load.wait_for_more(100)
        lab.start_control()
        lab.wait_published()
        load.wait_for_more(200)
        assert set(load.served(since)) == {"web-3", "web-4"}, load.served(since)
        for number in (1, 2):
            lab.start_nginx(number)
        wait_for("all primary backends to be back",
                 lambda: all(lab.backend(name)["in_selection"] for name in ("web-1", "web-2")), 10)
        lab.wait_published()
        only = with_backups(2)
        only["backends"] = [each for each in only["backends"] if each.get("backup")]
        lab.write_config([only])
        lab.weirctl("config", "reload")
        lab.wait_published()
        removed = time.monotonic()
        load.wait_for_more(200)
        assert set(load.served(removed)) == {"web-3", "web-4"}, load.served(removed)
        assert not load.errors(since), load.errors(since)[:5]
