# SPDX-License-Identifier: BSD-3-Clause
"""weirctl doctor with several ports, and with VLANs: which port the routes of the kernel use."""
from lab import VIP4, web
from netns import wait_for
from scenario import scenario
from scenarios_doctor import find


@scenario(start=False, services=[web({"web-1": 100}, vips=(VIP4,))], hosts=1, port={"vlan": 20})
def route_without_the_vlan_tag_is_explained(lab):
    """A port with a VLAN tag, but a route through its interface without the tag: log and doctor have the cause"""
    lab.start_backends()
    lab.start_dataplane()
    lab.start_control()
    why = ("egress interface lb0 has no VLAN tag, but port wan sends with VLAN tag 20: the route must use a VLAN "
           "interface with this tag")
    wait_for("the cause in the log", lambda: f"next hop for 10.0.0.11 unresolved: {why}" in
             lab.programs["control"].output(), 15)
    row = find(lab, "backends", "web/web-1", "fault", "egress interface lb0 of its route has no VLAN tag, but port wan")
    assert row["cure"].startswith("ip link add link lb0 name lb0.20 type vlan id 20 && ip link set lb0.20 up"), row
