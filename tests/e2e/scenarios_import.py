# SPDX-License-Identifier: BSD-3-Clause
"""Services that were imported from other load balancers serve real clients."""
import contextlib
import json
import os
import subprocess
from collections import Counter

import clients
from lab import BACKENDS, VIP4, backend_address, web
from netns import wait_for
from scenario import scenario
from scenarios_affinity import SOURCES, add_sources, serve

SERVERS = {backend_address(number): name for number, name in enumerate(BACKENDS, 1)}


OF_LINES = "TCP_CHECK {\n   connect_port 7000\n  }"  # the check of a UDP service


def real_servers(port, check):
    return "".join(f" real_server {address} {port} {{\n  weight 1\n  {check}\n }}\n" for address in SERVERS)


# Direct routing with persistence and a check of its own for each server, DNS with one-packet scheduling, and a
# hash of the source.
KEEPALIVED = f"""
virtual_server {VIP4} 80 {{
 delay_loop 1
 lb_algo wlc
 lb_kind DR
 protocol TCP
 persistence_timeout 50
 real_server {backend_address(1)} 80 {{
  weight 1
  HTTP_GET {{
   url {{
    path /healthz
    status_code 200
   }}
   url {{
    path /1k
   }}
   retry 1
   delay_before_retry 1
  }}
 }}
 real_server {backend_address(2)} 80 {{
  weight 1
  TCP_CHECK {{
   connect_port 7000
  }}
 }}
 real_server {backend_address(3)} 80 {{
  weight 1
  PING_CHECK {{
  }}
 }}
 real_server {backend_address(4)} 80 {{
  weight 1
 }}
}}
virtual_server {VIP4} 9000 {{
 delay_loop 1
 lb_algo rr
 lb_kind DR
 protocol UDP
 ops
{real_servers(9000, OF_LINES)}}}
virtual_server {VIP4} 7000 {{
 delay_loop 1
 lb_algo sh
 lb_kind TUN
 protocol TCP
{real_servers(7000, "TCP_CHECK")}}}
"""


def import_keepalived(lab, text):
    path = os.path.join(lab.dir, "keepalived.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    done = subprocess.run([lab.binary("weirctl"), "import", "keepalived", path], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["services"]


def healthy(lab, service=None):
    rows = lab.api("backend.show")
    return {row["name"] for row in rows if row["health"] == "healthy" and service in (None, row["service"])}


@scenario(services=[web()])
def imported_services_serve_clients(lab):
    """Services of keepalived, imported, serve clients: DR with persistence, DNS with one-packet scheduling, and sh"""
    add_sources(lab)
    services = import_keepalived(lab, KEEPALIVED)
    names = [service["name"] for service in services]
    lab.write_config(services)
    lab.weirctl("config", "reload")
    wait_for("the imported backends to be healthy",
             lambda: [healthy(lab, name) for name in names] == [set(SERVERS)] * 3, 20)
    lab.wait_published()
    sources = [source for source in SOURCES if ":" not in source]
    first = {source: serve(lab, source) for source in sources}
    for _ in range(3):
        assert {source: serve(lab, source) for source in sources} == first, "a client moved"
    with contextlib.closing(clients.Udp(lab.client, VIP4)) as session:
        counts = Counter(session.ask() for _ in range(80))
    assert set(counts.values()) == {20} and set(counts) == set(BACKENDS), counts
    found = set()
    for _ in range(10):
        with contextlib.closing(clients.Line(lab.client, VIP4)) as line:
            found.add(line.ask())
    assert len(found) == 1, found
    # only the server that is checked over HTTP, and the one at whose port the others connect, are down
    lab.programs["nginx-1"].stop()
    lab.programs["server-2"].stop()
    down = {backend_address(1), backend_address(2)}
    wait_for("two backends to fail", lambda: healthy(lab, names[0]) == set(SERVERS) - down, 20)
    lab.wait_published()
    assert {serve(lab, source) for source in sources} <= {"web-3", "web-4"}
