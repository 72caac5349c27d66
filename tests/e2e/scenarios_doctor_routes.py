# SPDX-License-Identifier: BSD-3-Clause
"""weirctl doctor with several ports, and with VLANs: which port the routes of the kernel use."""
from lab import VIP4, web
from netns import wait_for
from scenario import scenario
from scenarios_doctor import cure, find, weirctl_doctor


@scenario(two_armed=True, lb_mtu=1500, services=[web({"web-1": 100}, vips=(VIP4,))], hosts=1)
def doctor_looks_at_the_port_to_each_backend(lab):
    """The MTU and rp_filter of a port that leads to no backend do not matter"""
    lab.lb.ip("route", "add", "unreachable", VIP4)
    lab.lb.sysctl(net__ipv4__conf__lb0__rp_filter=2)
    found, _ = weirctl_doctor(lab)
    assert ("config", "wan") not in found, found["config", "wan"]
    row = found["rp-filter", VIP4]
    assert row["level"] == "ok" and "on lb1" in row["found"], row
    lab.lb.sysctl(net__ipv4__conf__lb1__rp_filter=2)
    row = find(lab, "rp-filter", VIP4, "notice", "drops replies from this VIP on lb1")
    cure(lab, row)
    find(lab, "rp-filter", VIP4, "ok", "on lb1")
    # Without its interface, the backend is behind wan.
    lab.lb.ip("route", "add", "10.0.0.11", "via", "10.1.0.1")
    find(lab, "config", "wan", "notice", "mtu 1500 leaves 1480 bytes")


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
