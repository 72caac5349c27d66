// SPDX-License-Identifier: BSD-3-Clause
//
// weir-agent doctor: looks at everything on a backend that has to be right for its balancers, and
// names the command that cures what is not. Changes nothing. One row a check: from it come what
// runs, and the table of docs/reference/doctor.md, which a test compares with this list.
//
// Threads: one; blocks.
#pragma once

#include <jansson.h>

#include "findings.h"
#include "hints.h"
#include "options.h"

// Function, name, what it looks at.
#define WEIR_AGENT_DOCTOR_CHECKS(X) \
	X(decap, "decap", "what removes the outer header on INTERFACE, and what it refuses") \
	X(loopback, "loopback", "the VIPs are addresses of this host") \
	X(rp_filter, "rp-filter", "reverse path filter of INTERFACE, or of the tunnel device") \
	X(arp, "arp", "ARP for VIPs that are in a subnet of INTERFACE") \
	X(mtu, "mtu", "MTU of INTERFACE, or the MSS that clients are told, against the tunnel") \
	X(offloads, "offloads", "receive offloads of INTERFACE that join packets before XDP") \
	X(keys, "key-file", "owner, mode and contents of the key file") \
	X(balancers, "balancers", "weir-agent run answers, and balancers probe it") \
	X(steal, "steal", "with --allow-steal: the kernel can remove half-open connections") \
	X(listeners, "listeners", "something listens at each --port; limit of its accept queue") \
	X(syn_queue, "syn-queue", "SYN cookies and the queue of half-open connections") \
	X(btf, "btf", "BTF of the kernel, which measuring needs")

struct weir_agent_doctor {
	const struct weir_agent_options *options;
	struct weir_hints_host host; // of the interface
	json_t *status; // of weir-agent run; NULL: it does not answer
	struct weir_findings findings;
};

#define X(function, name, text) \
	void weir_agent_doctor_check_##function(struct weir_agent_doctor *doctor);
WEIR_AGENT_DOCTOR_CHECKS(X)
#undef X

// Run all checks and print what they find. Returns 0, 1 (warnings, or there is no such interface)
// or 2 (faults).
int weir_agent_doctor_run(const struct weir_agent_options *options);
