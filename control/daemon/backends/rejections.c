// SPDX-License-Identifier: BSD-3-Clause
#include "rejections.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "configured.h"
#include "forwarding.h"

// A tick reads no further message after this number of comparisons, because thousands of services
// can use the same address.
#define WORK_PER_TICK 20000u

struct owner { // a backend and its address
	struct weir_address address;
	const struct weir_config_service *service;
	struct weir_forwarding forwarding;
	uint16_t id;
};

struct weir_rejections {
	struct weir_outliers *outliers;
	struct weir_icmp_sockets sockets;
	struct weir_tables *tables;
	struct owner *owners; // sorted by address; empty if no service uses ICMP errors
	uint32_t count;
	uint64_t work; // number of owners and binds compared in this tick
};

int weir_rejections_create(struct weir_outliers *outliers, struct weir_rejections **ret) {
	struct weir_rejections *rejections = calloc(1, sizeof(*rejections));

	if (rejections == NULL) {
		return -ENOMEM;
	}
	rejections->outliers = outliers;
	rejections->sockets = (struct weir_icmp_sockets){.ipv4 = -1, .ipv6 = -1};
	*ret = rejections;
	return 0;
}

void weir_rejections_free(struct weir_rejections *rejections) {
	if (rejections == NULL) {
		return;
	}
	weir_icmp_close(&rejections->sockets);
	free(rejections->owners);
	free(rejections);
}

void weir_rejections_listen(struct weir_rejections *rejections, struct weir_icmp_sockets *sockets) {
	weir_icmp_close(&rejections->sockets);
	rejections->sockets = *sockets;
	*sockets = (struct weir_icmp_sockets){.ipv4 = -1, .ipv6 = -1};
}

// --- configuration --------------------------------------------------------------------------

static int compare(const struct weir_address *a, const struct weir_address *b) {
	if (a->family != b->family) {
		return a->family < b->family ? -1 : 1;
	}
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

static int order_by_address(const void *a, const void *b) {
	const struct owner *left = a, *right = b;

	return compare(&left->address, &right->address);
}

static bool counts(const struct weir_config_service *service) {
	return service->outlier_ejection.enabled && service->outlier_ejection.unreachable_flows > 0;
}

// Returns the number of owners to list, which is 0 if no service uses ICMP errors.
static uint32_t room_for(const struct weir_config *config) {
	uint32_t room = 0;
	bool any = false;

	for (uint32_t i = 0; i < config->service_count; i++) {
		room += config->services[i].backend_count;
		any |= counts(&config->services[i]);
	}
	return any ? room : 0;
}

int weir_rejections_follow(struct weir_rejections *rejections, struct weir_tables *tables,
	const struct weir_config *config) {
	struct weir_configured of = weir_configured_begin(tables, config);
	uint32_t room = room_for(config);

	free(rejections->owners);
	rejections->owners = NULL;
	rejections->count = 0;
	rejections->tables = tables;
	if (room == 0) {
		return 0;
	}
	rejections->owners = calloc(room, sizeof(rejections->owners[0]));
	if (rejections->owners == NULL) {
		return -ENOMEM;
	}
	while (weir_configured_next(&of)) {
		rejections->owners[rejections->count++] =
			(struct owner){.address = of.backend.address,
				.service = of.service,
				.forwarding = of.backend.forwarding,
				.id = of.backend.id};
	}
	qsort(rejections->owners, rejections->count, sizeof(rejections->owners[0]),
		order_by_address);
	return 0;
}

// --- messages -------------------------------------------------------------------------------

// Returns the index of the first owner of an address. If the address has no owner, returns the
// index of the first owner of a later address, or rejections->count.
static uint32_t first_owner(
	const struct weir_rejections *rejections, const struct weir_address *address) {
	uint32_t low = 0, high = rejections->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare(&rejections->owners[middle].address, address) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

// Returns whether a service has a bind for this destination.
static bool is_bound(
	const struct weir_config_service *service, const struct weir_unreachable_report *report) {
	for (uint32_t i = 0; i < service->bind_count; i++) {
		const struct weir_config_bind *bind = &service->binds[i];

		if (bind->protocol == report->protocol && report->vip_port >= bind->port_first &&
			report->vip_port <= bind->port_last &&
			compare(&bind->address, &report->vip) == 0) {
			return true;
		}
	}
	return false;
}

// Returns whether packets to a backend use the tunnel of a report. Compares forwarding and inner
// address family, because some hosts decapsulate only one mode, or only IPv4 or only IPv6.
static bool uses_tunnel(const struct owner *owner, const struct weir_unreachable_report *report) {
	const struct weir_config_service *service = owner->service;

	if (!weir_forwarding_equal(&owner->forwarding, &report->forwarding)) {
		return false;
	}
	for (uint32_t i = 0; i < service->bind_count; i++) {
		if (service->binds[i].address.family == report->vip.family) {
			return true;
		}
	}
	return false;
}

uint32_t weir_rejections_take(struct weir_rejections *rejections,
	const struct weir_unreachable_report *report, uint64_t now_ms) {
	const uint32_t first = first_owner(rejections, &report->host);
	uint32_t end = first, found = 0;
	bool ours = false;

	for (; end < rejections->count &&
		compare(&rejections->owners[end].address, &report->host) == 0;
		end++) {
		const struct owner *owner = &rejections->owners[end];

		rejections->work += 1 + owner->service->bind_count;
		ours = ours ||
		       (weir_forwarding_equal(&owner->forwarding, &report->forwarding) &&
			       weir_tables_has_source(
				       rejections->tables, owner->id, &report->source) &&
			       weir_tables_fits(rejections->tables, owner->id, report->bytes) &&
			       is_bound(owner->service, report));
	}
	for (uint32_t i = first; ours && i < end; i++) {
		const struct owner *owner = &rejections->owners[i];

		if (counts(owner->service) && uses_tunnel(owner, report)) {
			weir_outliers_unreachable(rejections->outliers, owner->id,
				(enum weir_unreachable_kind)report->kind,
				weir_unreachable_flow(report), now_ms);
			found++;
		}
	}
	return found;
}

void weir_rejections_tick(struct weir_rejections *rejections, uint64_t now_ms) {
	unsigned int budget[2] = {WEIR_REJECTIONS_MESSAGES, WEIR_REJECTIONS_MESSAGES};
	struct weir_unreachable_report report;

	rejections->work = 0;
	while (rejections->work < WORK_PER_TICK &&
		weir_unreachable_receive(&rejections->sockets, budget, &report)) {
		weir_rejections_take(rejections, &report, now_ms);
	}
}
