// SPDX-License-Identifier: BSD-3-Clause
//
// weir-agent doctor: checks the host settings that a backend needs, and prints the problems, most
// of them with a command that fixes the problem or shows the cause. Changes nothing.
// WEIR_AGENT_DOCTOR_CHECKS has one row per check; a test compares the table of
// docs/reference/doctor.md with this table.
//
// Threads: one; blocks.
#pragma once

#include <jansson.h>

#include "findings.h"
#include "host.h"
#include "options.h"

// X(suffix of the function, "name", "what the check examines")
#define WEIR_AGENT_DOCTOR_CHECKS(X) \
	X(decap, "decap", \
		"decapsulation on INTERFACE by weir-agent decap or tunnel devices; accepted " \
		"forwarding modes; refused packets") \
	X(loopback, "loopback", "the VIPs are addresses of this host") \
	X(rp_filter, "rp-filter", "reverse path filter of INTERFACE, or of the tunnel devices") \
	X(arp, "arp", \
		"answers to ARP requests for VIPs that are in a subnet of INTERFACE, and VIPs " \
		"that are on INTERFACE") \
	X(mtu, "mtu", "MTU of INTERFACE, or the advertised MSS, leaves room for outer headers") \
	X(offloads, "offloads", \
		"LRO and hardware GRO of INTERFACE, which merge packets before XDP") \
	X(keys, "key-file", "owner, mode and contents of the key file") \
	X(balancers, "balancers", "weir-agent run responds, and balancers probe this agent") \
	X(steal, "steal", "with --allow-steal: the kernel can remove half-open connections") \
	X(ports, "ports", "the ports that weir-agent run watches have listening sockets") \
	X(listeners, "listeners", \
		"listening socket of each --port, and limit of its accept queue") \
	X(syn_queue, "syn-queue", "SYN cookies and the queue of half-open connections") \
	X(capacity, "capacity", "the speed of the CPUs, for automatic weights") \
	X(btf, "btf", "kernel BTF, which the meter and the monitoring of listening sockets need")

struct weir_agent_doctor {
	const struct weir_agent_options *options;
	struct weir_agent_host host;
	json_t *status; // status of weir-agent run; NULL: no response
	struct weir_findings findings;
};

#define X(function, name, text) \
	void weir_agent_doctor_check_##function(struct weir_agent_doctor *doctor);
WEIR_AGENT_DOCTOR_CHECKS(X)
#undef X

// Run all checks and print the findings. Returns 0, 1 (warnings, or no such interface) or 2
// (faults, or out of memory).
int weir_agent_doctor_run(const struct weir_agent_options *options);
