// SPDX-License-Identifier: BSD-3-Clause
//
// Reports a route to a backend through an interface that is no port, mostly because its VLAN tag
// and that of the port differ.
#include <stdio.h>

#include "device.h"
#include "doctor.h"
#include "tree.h"

// Adds the command that lets the kernel use the VLAN of a port. The name of the VLAN interface has
// no more characters than the kernel permits.
static void cure_vlan(
	struct weir_doctor *doctor, const struct weir_config_port *port, const char *lower) {
	char name[IF_NAMESIZE + 8];

	if (snprintf(name, sizeof(name), "%s.%u", lower, port->vlan) >= IF_NAMESIZE) {
		snprintf(name, sizeof(name), "vlan%u", port->vlan);
	}
	if (weir_tree_has(doctor->root, "/sys/class/net/%s", name)) {
		weir_findings_cure(&doctor->findings,
			"ip addr show dev %s; ip route show dev %s # move them to %s", lower, lower,
			name);
		return;
	}
	weir_findings_cure(&doctor->findings,
		"ip link add link %s name %s type vlan id %u && ip link set %s up # then move the "
		"addresses and routes of %s to it, or remove \"vlan\" of the port",
		lower, name, port->vlan, name, lower);
}

void weir_doctor_report_no_port(
	struct weir_doctor *doctor, const char *name, const char *interface, const char *address) {
	const struct weir_config_port *other =
		weir_doctor_find_other_vlan(doctor->root, doctor->config, interface);
	const int vlan = weir_doctor_vlan_of(doctor->root, interface);
	char has[24] = "no VLAN tag", own[IF_NAMESIZE];

	if (other == NULL) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"egress interface %s of the route to %s is not a dataplane port", interface,
			address);
		weir_findings_cure(&doctor->findings, "ip route get %s", address);
		return;
	}
	if (vlan > 0) {
		snprintf(has, sizeof(has), "VLAN tag %d", vlan);
	} else if (vlan < 0) {
		snprintf(has, sizeof(has), "a VLAN tag");
	}
	if (other->vlan == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
			"egress interface %s of its route has %s, but port %s sends without "
			"a tag: set \"vlan\" of the port, or another route",
			interface, has, other->name);
		weir_findings_cure(&doctor->findings, "editor %s", doctor->config_path);
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, name,
		"egress interface %s of its route has %s, but port %s sends with VLAN tag "
		"%u: the route must use a VLAN interface with this tag",
		interface, has, other->name, other->vlan);
	(void)weir_doctor_kernel_interface(other, own);
	cure_vlan(doctor, other, vlan == 0 ? interface : own);
}
