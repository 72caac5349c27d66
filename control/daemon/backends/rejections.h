// SPDX-License-Identifier: BSD-3-Clause
//
// Rejections: finds the backends that an ICMP error about a tunnel packet (unreachable.h) is about,
// and passes it to outliers.h. A message must be about a packet that we send: the quoted outer
// addresses are those of packets to a backend, the quoted flow is to a bind of its service, and the
// packet went out in one piece (weir-agent decap leaves IPv6 fragments to the kernel, which rejects
// the whole packet, so that clients with packets of 1,280 bytes can cause errors). It then counts
// for every backend with the address of the host, because a host sends few messages, whatever the
// service: Linux six, then one a second.
//
// Cost: at most WEIR_REJECTIONS_MESSAGES messages of each family are read at a time. In a flood the
// others are lost, and ejection takes longer.
//
// Threads: one, that of the loop.
#pragma once

#include <stdint.h>

#include "outliers.h"
#include "unreachable.h"

#define WEIR_REJECTIONS_MESSAGES 512u

struct weir_rejections;

// outliers: borrowed. Returns 0 or -ENOMEM.
int weir_rejections_create(struct weir_outliers *outliers, struct weir_rejections **ret);
void weir_rejections_free(struct weir_rejections *rejections); // NULL is allowed

// Read from these sockets. Takes ownership of them.
void weir_rejections_listen(struct weir_rejections *rejections, struct weir_icmp_sockets *sockets);

// Apply a configuration and its tables (both borrowed until the next call). Returns 0 or -ENOMEM
// (no message counts).
int weir_rejections_follow(struct weir_rejections *rejections, struct weir_tables *tables,
	const struct weir_config *config);

// Read what has arrived; call ten times a second.
void weir_rejections_tick(struct weir_rejections *rejections, uint64_t now_ms);

// Take one report. Returns the number of backends that it counts for.
uint32_t weir_rejections_take(struct weir_rejections *rejections,
	const struct weir_unreachable_report *report, uint64_t now_ms);
