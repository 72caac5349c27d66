// SPDX-License-Identifier: BSD-3-Clause
//
// Device: parses ports[].device, the DPDK device of a port, and finds the kernel interface of the
// device. Also checks the reverse path filter of an interface (check_network.c).
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

// Returns whether the reverse path filter of an interface drops packets whose source is this VIP.
// root: see tree.h. Queries the kernel.
bool weir_doctor_answers_dropped(
	const char *root, const struct weir_address *vip, const char *interface);
