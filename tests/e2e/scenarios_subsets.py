# SPDX-License-Identifier: BSD-3-Clause
"""Subsets: which of six backends are used, and what happens if a used backend fails."""
import json
import os

import clients
from lab import VIP4, lines, web
from netns import wait_for
from scenario import scenario

SIX = {f"web-{number}": 100 for number in range(1, 7)}
THREE = {"algorithm": "deterministic", "size": 3}
SECOND_OF_TWO = {"instance": {"name": "lb-1", "client_id": 1, "clients": 2}}


def shown(lab, name):
    """Returns the parsed output of `weirctl subset show NAME --json`."""
    return json.loads(lab.weirctl("subset", "show", name, "--json")[1])[0]


def members(lab, name="web"):
    """Returns {backend: state} of this instance's only subset."""
    subset, = shown(lab, name)["subsets"]
    return {member["backend"]: member["state"] for member in subset["members"]}


def served(lab, count=120):
    """Returns the backends that answer new connections."""
    result = clients.curl_batch(lab.client, VIP4, count)
    assert result.ok == count, result.errors[:5]
    return set(result.served)


@scenario(hosts=6, config=SECOND_OF_TWO, services=[web(SIX, subset=THREE)])
def subset_replaces_a_member_and_keeps_flows(lab):
    """Three of six backends are used; if one fails, another backend replaces it until it recovers; no download breaks"""
    before = members(lab)
    assert list(before.values()) == ["member"] * 3, before
    assert served(lab) == set(before)
    text = lab.weirctl("subset", "show", "web")[1]
    assert all(name in text for name in SIX) and "deterministic" in text, text
    # Two instances use three of six backends each, so each backend has one client.
    assert shown(lab, "web")["clients_of_a_backend"] == {"least": 1, "mean": 1.0, "most": 1}

    size = 24 << 20
    digest = lab.make_file("long", size)
    dead, *others = before
    downloads = {}
    for _ in range(100):
        download = clients.Download(lab.client, VIP4, "/files/long", held=True)
        name = download.backend()
        if name in others and name not in downloads:
            downloads[name] = download
        else:
            download.stop()
        if len(downloads) == len(others):
            break
    assert set(downloads) == set(others), downloads
    lab.kill_backend(int(dead[-1]))
    wait_for(f"{dead} unusable", lambda: members(lab)[dead] == "unusable", 5)
    after = members(lab)
    stand_in, = set(after) - set(before)
    assert after == {**before, dead: "unusable", stand_in: "replacement"}, after
    subset, = shown(lab, "web")["subsets"]
    assert subset["members"][-1]["replaces"] == dead, subset
    wait_for("the replacement to serve requests", lambda: served(lab) == {*others, stand_in}, 3)
    assert not lab.backend(dead)["in_selection"] and lab.backend(stand_in)["in_selection"]
    line = clients.line_per_backend(lab.client, VIP4, [stand_in], clients.KeepAlive)[stand_in]

    lab.start_nginx(int(dead[-1]))
    wait_for("the subset to be as before", lambda: members(lab) == before, 5)
    wait_for(f"{dead} to serve", lambda: served(lab) == set(before), 3)
    assert line.ask() == stand_in  # S6: the connection stayed at its backend although the subset changed
    assert all(download.running() for download in downloads.values()), "they ended too early"
    for name, download in downloads.items():
        assert download.finish() == (0, size, digest), name
        download.stop()
    line.close()


@scenario(hosts=6, services=[lines(SIX)])
def subset_changes_with_a_reload(lab):
    """Reloads enable subsetting, change the instance's group, and disable subsetting again; connections stay"""
    found = clients.line_per_backend(lab.client, VIP4, list(SIX))

    def reload(instance, **more):
        lab.extra = {"instance": {"name": "lb-0", **instance}}
        lab.write_config([lines(SIX, **more)])
        lab.weirctl("config", "reload")
        lab.wait_published()
        used = {b["name"] for b in lab.backends("lines") if b["in_selection"]}
        clients.check_lines(found)
        for _ in range(30):
            line = clients.Line(lab.client, VIP4)
            assert line.backend in used, (line.backend, used)
            line.close()
        return used

    first = reload({"client_id": 0, "clients": 2}, subset=THREE)
    second = reload({"client_id": 1, "clients": 2}, subset=THREE)
    assert len(first) == len(second) == 3 and first | second == set(SIX), (first, second)
    assert reload({"client_id": 0, "clients": 2}) == set(SIX)


@scenario(hosts=6, workers={"cores": [os.cpu_count() - 1] * 2},
          services=[lines(SIX, subset={"algorithm": "deterministic", "size": 1,
                                       "client": "worker"})])
def subset_of_each_worker(lab):
    """With two workers that have a subset of one backend each, flows go to these backends, as weirctl shows"""
    subsets = shown(lab, "lines")["subsets"]
    used = {subset["worker"]: subset["members"][0]["backend"] for subset in subsets}
    assert len(subsets) == 2 and len(set(used.values())) == 2, subsets
    found = clients.line_per_backend(lab.client, VIP4, list(used.values()))
    for _ in range(40):
        line = clients.Line(lab.client, VIP4)
        assert line.backend in used.values(), line.backend
        line.close()
    shares = {b["name"]: b["share_percent"] for b in lab.backends("lines")}
    assert shares == {name: 50.0 if name in used.values() else 0.0 for name in SIX}, shares
    lab.weirctl("backend", "drain", "lines/" + used[0])
    stand_in = shown(lab, "lines")["subsets"][0]["members"][-1]["backend"]
    clients.line_per_backend(lab.client, VIP4, {stand_in, used[1]})  # possibly the same backend
    clients.check_lines(found)
