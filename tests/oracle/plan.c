// SPDX-License-Identifier: BSD-3-Clause
#include "plan.h"

#include "flow_state.h"
#include "layout.h"

static const struct plan_bind shared_binds[] = {
	// Binds of VIPs 0 and 2. VIPs 1 and 3 (IPv6) have the same binds.
	{0, 6, 80, 80, 0}, {0, 6, 8000, 8099, 0}, {0, 17, 0, 65535, 1}, {0, 6, 443, 443, 2},
	{2, 6, 22, 22, 3}, {2, 17, 53, 53, 4}, {2, 17, 500, 600, 5}, {2, 6, 9000, 9999, 6},
	{2, 6, 9100, 9199, 7}, // inside the range of the previous bind
};

static void draw_vips(struct plan *plan, struct random *random) {
	static const uint8_t address[PLAN_VIPS][16] = {
		{198, 51, 100, 10},
		{0x20, 1, 0xd, 0xb8, 0, 2, [15] = 0x10},
		{198, 51, 100, 11},
		{0x20, 1, 0xd, 0xb8, 0, 2, [15] = 0x11},
	};

	for (uint8_t i = 0; i < PLAN_VIPS; i++) {
		struct plan_vip *vip = &plan->vips[i];

		memcpy(vip->address, address[i], 16);
		vip->family = i % 2 == 0 ? 4 : 6;
		vip->closed = (uint8_t)random_below(random, 3);
	}
	plan->bind_count = 0;
	for (uint32_t i = 0; i < sizeof(shared_binds) / sizeof(shared_binds[0]); i++) {
		for (uint8_t twin = 0; twin < 2; twin++) {
			struct plan_bind *bind = &plan->binds[plan->bind_count++];

			*bind = shared_binds[i];
			bind->vip = (uint8_t)(bind->vip + twin);
		}
	}
}

static uint16_t draw_mtu(const struct plan *plan, struct random *random, uint8_t port) {
	static const uint16_t mtus[] = {1500, 1500, 1500, 1400, 1280, 1300, 576, 600};

	uint16_t mtu = port == 1 ? 9000 : mtus[random_below(random, 8)];

	return mtu < plan->port_mtu[port] ? mtu : plan->port_mtu[port];
}

static struct weir_forwarding draw_forwarding(struct random *random) {
	return (struct weir_forwarding){
		.mode = (uint8_t)random_below(random, WEIR_FORWARDING_COUNT),
		.gue_port = chance(random, 50) ? WEIR_GUE_PORT
					       : (uint16_t)(1 + random_below(random, 65535)),
		.gre_key = chance(random, 50) ? (uint32_t)random64(random) : 0};
}

// The forwarding of a backend: that of its service, or, in one of three cases, with another mode.
static void choose_forwarding(struct plan *plan, struct random *random, uint16_t id) {
	struct weir_backend_path *path = &plan->backends[id].path;

	path->forwarding = plan->services[path->service].forwarding;
	if (chance(random, 33)) {
		path->forwarding.mode = (uint8_t)random_below(random, WEIR_FORWARDING_COUNT);
	}
}

static void draw_backend(struct plan *plan, struct random *random, uint16_t id) {
	struct weir_backend_path *path = &plan->backends[id].path;
	uint8_t port = (uint8_t)random_below(random, PLAN_PORTS);

	*path = (struct weir_backend_path){.family = chance(random, 60) ? 4 : 6,
		.port = port,
		.next_hop_mac = {2, 0, 0, 1, 0, (uint8_t)id},
		.port_mac = {2, 0, 0, 2, 0, (uint8_t)id},
		.vlan = port == 2 ? 77 : 0,
		.mtu = draw_mtu(plan, random, port),
		.service = id / PLAN_PER_SERVICE,
		.resolved = true};
	memcpy(path->address, (uint8_t[]){10, 0, 0, (uint8_t)(11 + id)}, 4);
	memcpy(path->source, (uint8_t[]){10, 9, 0, 0}, 4);
	path->source_bits = chance(random, 50) ? (uint8_t)random_below(random, 17) : 0;
	if (path->family == 6) {
		memcpy(path->address, (uint8_t[16]){0xfd, [15] = (uint8_t)(11 + id)}, 16);
		memcpy(path->source, (uint8_t[16]){0xfd, 1, [15] = 1}, 16);
		path->source_bits = 0;
		path->mtu = path->mtu < 1280 ? 1280 : path->mtu;
	}
	choose_forwarding(plan, random, id);
	plan->backends[id].present = true;
}

static void draw_services(struct plan *plan, struct random *random) {
	static const enum weir_policy policies[PLAN_SERVICES] = {WEIR_POLICY_MAGLEV,
		WEIR_POLICY_MAGLEV, WEIR_POLICY_ROUND_ROBIN, WEIR_POLICY_LEAST_LOADED,
		WEIR_POLICY_ROUND_ROBIN, WEIR_POLICY_RANDOM, WEIR_POLICY_LEAST_LOADED,
		WEIR_POLICY_WEIGHTED_ROUND_ROBIN};
	static const uint8_t down[] = {0, WEIR_BACKEND_REHASH, WEIR_BACKEND_RESET};

	for (uint16_t i = 0; i < PLAN_SERVICES; i++) {
		struct plan_service *service = &plan->services[i];

		service->policy =
			i >= 2 && i <= 5 && chance(random, 50)
				? (enum weir_policy)random_below(random, WEIR_POLICY_COUNT)
				: policies[i];
		service->down = down[random_below(random, 3)];
		service->limit = i == 6 && chance(random, 30) ? 1 + random_below(random, 12) : 0;
		service->by_datagram = chance(random, 25);
		service->forwarding = draw_forwarding(random);
		service->member_count = PLAN_PER_SERVICE;
		for (uint16_t k = 0; k < PLAN_PER_SERVICE; k++) {
			service->members[k] = (uint16_t)(i * PLAN_PER_SERVICE + k);
			draw_backend(plan, random, service->members[k]);
		}
	}
}

static void draw_affinity(struct plan *plan, struct random *random) {
	for (uint16_t i = 0; i < PLAN_SERVICES; i++) {
		struct plan_service *service = &plan->services[i];

		service->affine = service->policy != WEIR_POLICY_MAGLEV && service->limit == 0 &&
				  chance(random, 25);
	}
}

void plan_draw(struct plan *plan, struct random *random) {
	static const uint32_t rates[] = {0, 10, 1000, 100000, 1000000};

	memset(plan, 0, sizeof(*plan));
	plan->port_mtu[0] = 1500;
	plan->port_mtu[1] = 9000;
	plan->port_mtu[2] = (uint16_t)(1280 + random_below(random, 4) * 10);
	draw_vips(plan, random);
	draw_services(plan, random);
	plan->limits = (struct plan_limits){.echo = rates[random_below(random, 5)],
		.too_big = rates[random_below(random, 5)],
		.unreachable = rates[random_below(random, 5)],
		.reset = rates[1 + random_below(random, 4)]};
	plan->crowded = chance(random, 25);
	plan->flows = plan->crowded ? 64 + random_below(random, 400) : 16384;
	plan->half_open_percent = plan->crowded ? 5 + random_below(random, 60) : 100;
	plan->fragments_evicted = chance(random, 20);
	plan->fragment_entries = chance(random, 4) ? 0 : plan->fragments_evicted ? 16 : 65536;
	plan->fragment_timeout_ms = 1000 + random_below(random, 4000);
	plan->timeout_ms[WEIR_FLOW_SYN_SEEN] = 1500 + random_below(random, 1000);
	plan->timeout_ms[WEIR_FLOW_UDP_SEEN] = 1500 + random_below(random, 1000);
	plan->timeout_ms[WEIR_FLOW_YOUNG] = 2000 + random_below(random, 1000);
	plan->timeout_ms[WEIR_FLOW_ESTABLISHED] = 10000 + random_below(random, 10000);
	plan->timeout_ms[WEIR_FLOW_CLOSING] = 3000 + random_below(random, 2000);
	plan->timeout_ms[WEIR_FLOW_UDP] = 5000 + random_below(random, 5000);
	draw_affinity(plan, random);
}

// --- changes ------------------------------------------------------------------------------------

// In most cases, the new state is the usual state: the backend is usable.
static void change_state(struct plan *plan, struct random *random, uint16_t id) {
	struct plan_backend *backend = &plan->backends[id];
	struct weir_backend_path *path = &backend->path;

	switch (random_below(random, 20)) {
	case 0:
	case 1:
		path->state = WEIR_BACKEND_CLOSED;
		break;
	case 2:
	case 3:
	case 4:
		path->state = (uint8_t)(WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN |
					plan->services[path->service].down);
		break;
	case 5:
		backend->present = !backend->present;
		break;
	case 6:
		path->resolved = !path->resolved;
		break;
	case 7:
		path->mtu = draw_mtu(plan, random, path->port);
		if (path->family == 6 && path->mtu < 1280) {
			path->mtu = 1280;
		}
		break;
	case 8:
		choose_forwarding(plan, random, id);
		break;
	default:
		path->state = 0;
		path->resolved = true;
		backend->present = true;
	}
}

bool plan_change(
	struct plan *plan, struct random *random, uint16_t *ret_backend, uint16_t *ret_service) {
	uint16_t id = (uint16_t)random_below(random, PLAN_BACKENDS);
	struct plan_service *service = &plan->services[id / PLAN_PER_SERVICE];

	*ret_backend = id;
	*ret_service = (uint16_t)(id / PLAN_PER_SERVICE);
	change_state(plan, random, id);
	if (chance(random, 30)) {
		// The selection is not changed, so it is older than the row of the backend
		return false;
	}
	service->member_count = 0;
	for (uint16_t k = 0; k < PLAN_PER_SERVICE; k++) {
		const struct plan_backend *backend =
			&plan->backends[*ret_service * PLAN_PER_SERVICE + k];

		if (backend->present && (backend->path.state & WEIR_BACKEND_CLOSED) == 0) {
			service->members[service->member_count++] =
				(uint16_t)(*ret_service * PLAN_PER_SERVICE + k);
		}
	}
	return true;
}

uint16_t plan_change_udp(struct plan *plan, struct random *random, uint64_t now_ns) {
	uint16_t id = (uint16_t)random_below(random, PLAN_SERVICES);
	struct plan_service *service = &plan->services[id];

	service->by_datagram = !service->by_datagram;
	if (service->by_datagram) {
		plan->rebound_ns = now_ns;
	}
	return id;
}

void plan_rebind(struct plan *plan, struct random *random, uint64_t now_ns) {
	uint32_t i = random_below(random, plan->bind_count);
	struct plan_bind *bind = &plan->binds[i];

	plan->rebound_ns = now_ns;
	switch (random_below(random, 4)) {
	case 0:
		bind->service = (int)random_below(random, PLAN_SERVICES);
		break;
	case 1: // keep one bind for each VIP, so that the address remains a VIP
		bind->service = bind->first == 80 || bind->first == 22 ? bind->service : -1;
		break;
	default:
		bind->service = shared_binds[i / 2].service;
	}
}
