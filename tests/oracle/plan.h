// SPDX-License-Identifier: BSD-3-Clause
//
// Plan: the configuration of a balancer, as plain data. The rig publishes the plan, the oracle
// uses it for predictions. Plans are generated at random from a seed, so that all settings vary:
// policies, affinity, closed ports, limits, path MTUs, forwarding modes, and what happens to the
// flows of a backend that is down.
#pragma once

#include "backend_row.h"
#include "bytes.h"
#include "policy.h"

#define PLAN_MAC {2, 0, 0, 0, 0, 2} // MAC address of all ports
#define PLAN_SEED 0x1234567890abcdefull
#define PLAN_VIPS 4 // even VIPs: IPv4, odd VIPs: IPv6
#define PLAN_SERVICES 8
#define PLAN_PER_SERVICE 4
#define PLAN_BACKENDS (PLAN_SERVICES * PLAN_PER_SERVICE)
#define PLAN_PORTS 3
#define PLAN_BINDS_MAX 24
#define PLAN_SLOTS_MAX 256
#define PLAN_POOL_BUFFERS 1023
#define PLAN_POOL_ROOM 2176 // bytes of a buffer, including headroom

struct plan_vip {
	uint8_t address[16];
	uint8_t family;
	uint8_t closed; // enum weir_closed_ports
};

struct plan_bind {
	uint8_t vip;
	uint8_t protocol;
	uint16_t first, last;
	int service; // negative: the bind is not configured
};

struct plan_backend {
	struct weir_backend_path path;
	bool present;
};

struct plan_service {
	enum weir_policy policy;
	uint8_t down; // WEIR_BACKEND_REHASH, WEIR_BACKEND_RESET or 0
	struct weir_forwarding forwarding; // a backend can have another mode
	uint32_t limit; // max_active_flows with `reject`; 0 = none
	bool affine; // new flows of a client go to the backend of its earlier flows
	bool by_datagram; // a backend is chosen for each UDP datagram; the service has no UDP flows
	uint16_t members[PLAN_PER_SERVICE];
	uint32_t member_count;
	// The published Maglev table; each slot is an index into candidates[].
	uint16_t slots[PLAN_SLOTS_MAX];
	uint32_t slot_count;
	uint16_t candidates[PLAN_PER_SERVICE]; // backend ids
};

struct plan_limits { // limits per second
	uint32_t echo, too_big, unreachable, reset;
};

struct plan {
	struct plan_vip vips[PLAN_VIPS];
	struct plan_bind binds[PLAN_BINDS_MAX];
	uint32_t bind_count;
	struct plan_backend backends[PLAN_BACKENDS];
	struct plan_service services[PLAN_SERVICES];
	struct plan_limits limits;
	uint16_t port_mtu[PLAN_PORTS];
	bool crowded; // the flow table is so small that flows are evicted
	uint32_t flows, half_open_percent;
	uint32_t fragment_entries; // 0 = off
	uint32_t fragment_timeout_ms;
	bool fragments_evicted; // the fragment table is so small that datagrams are evicted
	uint32_t timeout_ms[16]; // index: enum weir_flow_state
	// Time of the last change of binds, or of the last service that lost its UDP flows; 0 =
	// never
	uint64_t rebound_ns;
};

void plan_draw(struct plan *plan, struct random *random);
// Change one backend, or the members of one service. Returns true if the members have changed.
bool plan_change(
	struct plan *plan, struct random *random, uint16_t *ret_backend, uint16_t *ret_service);
// Let a service have UDP flows or, if it has them, none. Returns the service.
uint16_t plan_change_udp(struct plan *plan, struct random *random, uint64_t now_ns);
// Move a bind to another service, remove it, or restore it.
void plan_rebind(struct plan *plan, struct random *random, uint64_t now_ns);
