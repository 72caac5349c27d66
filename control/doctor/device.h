// SPDX-License-Identifier: BSD-3-Clause
//
// Device: parses ports[].device, the DPDK device of a port, and finds the kernel interface of the
// device, and the port that an interface of the kernel belongs to. Also checks the reverse path
// filter of an interface (check_network.c).
//
// Threads: any.
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#include "config.h"

struct weir_doctor_device {
	char interface[IF_NAMESIZE]; // kernel interface; "" = none
	char pci[32]; // PCI address; "" = none
	bool af_xdp, af_packet;
};

struct weir_doctor_device weir_doctor_device_of(const struct weir_config_port *port);

// Gets the interface through which the kernel uses the network of a port: that of its exception
// device if it has one, else that of its device. Returns false with ret "" if it is unknown.
bool weir_doctor_kernel_interface(const struct weir_config_port *port, char ret[IF_NAMESIZE]);

// Returns the VLAN tag of a VLAN interface, 0 for another interface, or -1 for a VLAN interface
// whose tag this process must not read: only root can. root: see tree.h.
int weir_doctor_vlan_of(const char *root, const char *interface);

// Finds the port to which an interface belongs, by the same rules as weir-control (neighbours.h):
// an untagged port has its own interface, and a bridge or bond on top of it. A tagged port has VLAN
// interfaces with its tag on one of these; a VLAN interface whose tag is unknown belongs to it,
// too. Returns NULL if there is no such port.
const struct weir_config_port *weir_doctor_find_port(
	const char *root, const struct weir_config *config, const char *interface);
// Finds a port with this interface, but with another VLAN tag, or with a tag where the interface
// has none, or the other way round. Returns NULL if there is no such port. Call it if
// weir_doctor_find_port returns NULL.
const struct weir_config_port *weir_doctor_find_other_vlan(
	const char *root, const struct weir_config *config, const char *interface);

// Returns whether the reverse path filter of an interface drops packets whose source is this VIP.
// root: see tree.h. Queries the kernel.
bool weir_doctor_answers_dropped(
	const char *root, const struct weir_address *vip, const char *interface);
