// SPDX-License-Identifier: BSD-3-Clause
//
// Rejections: finds the backends to which an ICMP error about a tunnel packet (unreachable.h)
// refers, and passes the error to outliers.h.
//
// The error must quote a packet that Weir sends: its outer addresses and protocol match packets to
// a backend, its inner flow is to a bind of the backend's service, and a packet of its length is
// not fragmented. Errors about fragments are ignored, because clients could cause them with packets
// of 1,280 bytes: weir-agent decap passes IPv6 fragments to the kernel, which rejects the whole
// packet.
//
// An error is recorded for every backend with the host's address, the same forwarding (mode, GUE
// port, GRE key) and a bind of the same inner address family, in any service with outlier ejection
// and unreachable_flows above 0. A host sends too few ICMP errors to wait for one error per
// service: Linux sends six errors, then one per second.
//
// One tick reads at most WEIR_REJECTIONS_MESSAGES messages of each family, and fewer if many
// services use the same address. In a flood, further messages are lost, and ejection takes longer.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdint.h>

#include "outliers.h"
#include "unreachable.h"

#define WEIR_REJECTIONS_MESSAGES 512u

struct weir_rejections;

// outliers: borrowed. Returns 0 or -ENOMEM.
int weir_rejections_create(struct weir_outliers *outliers, struct weir_rejections **ret);
void weir_rejections_free(struct weir_rejections *rejections); // NULL is allowed

// Read messages from these sockets. Takes ownership of the sockets.
void weir_rejections_listen(struct weir_rejections *rejections, struct weir_icmp_sockets *sockets);

// Apply a configuration and its tables (both borrowed until the next call). Returns 0 or -ENOMEM
// (messages are ignored).
int weir_rejections_follow(struct weir_rejections *rejections, struct weir_tables *tables,
	const struct weir_config *config);

// Read the messages that have arrived; call ten times a second.
void weir_rejections_tick(struct weir_rejections *rejections, uint64_t now_ms);

// Processes one report. Returns the number of backends for which the error was recorded.
uint32_t weir_rejections_take(struct weir_rejections *rejections,
	const struct weir_unreachable_report *report, uint64_t now_ms);
