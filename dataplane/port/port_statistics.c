// SPDX-License-Identifier: BSD-3-Clause
#include "port_statistics.h"

#include <ctype.h>
#include <dirent.h>
#include <linux/if_xdp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rte_ethdev.h>

#define XSTATS_READ_MAX 4096

// A struct rte_eth_stats with additional room at its end. net_af_xdp of DPDK 22.11 writes the
// counts of all queues to arrays of 16 entries: the counts of queues 16 to 31 go into the next
// array, which is not used here, and the counts of queues from 32 on are written beyond the end of
// the struct.
#define XDP_QUEUES_FIT (2u * RTE_ETHDEV_QUEUE_STAT_CNTRS)
union roomy_stats {
	struct rte_eth_stats stats;
	uint8_t room[sizeof(struct rte_eth_stats) + WEIR_QUEUES_MAX * sizeof(uint64_t)];
};

// --- AF_XDP -------------------------------------------------------------------------------

static bool is_xdp_socket(int fd) {
	socklen_t bytes = sizeof(int);
	int domain;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_XDP;
}

static bool is_listed(const int *listed, uint32_t n, int fd) {
	for (uint32_t i = 0; i < n; i++) {
		if (listed[i] == fd) {
			return true;
		}
	}
	return false;
}

uint32_t weir_xdp_sockets(const int *listed, uint32_t n, int *ret, uint32_t room) {
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	uint32_t found = 0;

	while (folder != NULL && found < room && (entry = readdir(folder)) != NULL) {
		int fd = atoi(entry->d_name);

		if (isdigit((unsigned char)entry->d_name[0]) && is_xdp_socket(fd) &&
			!is_listed(listed, n, fd)) {
			ret[found++] = fd;
		}
	}
	if (folder != NULL) {
		closedir(folder);
	}
	return found;
}

// Sums the statistics of all AF_XDP sockets. In copy mode (without zero-copy), the kernel counts a
// packet in rx_dropped if the packet is too long, and also if the fill ring is empty. With
// zero-copy, rx_dropped stays 0, and the NIC counts lost packets.
static void read_xdp(
	const struct weir_port_statistics *statistics, struct weir_port_counters *ret) {
	uint64_t dropped = 0, no_buffer;

	for (uint32_t i = 0; i < statistics->sockets; i++) {
		struct xdp_statistics xdp = {0};
		socklen_t bytes = sizeof(xdp);

		if (getsockopt(statistics->socket[i], SOL_XDP, XDP_STATISTICS, &xdp, &bytes) < 0) {
			continue;
		}
		dropped += xdp.rx_dropped;
		ret->xdp_ring_full += xdp.rx_ring_full;
		ret->xdp_fill_empty += xdp.rx_fill_ring_empty_descs;
		ret->xdp_invalid += xdp.rx_invalid_descs + xdp.tx_invalid_descs;
	}
	no_buffer = dropped < ret->xdp_fill_empty ? dropped : ret->xdp_fill_empty;
	ret->imissed = no_buffer;
	ret->frame_too_long = dropped - no_buffer;
}

// --- extended statistics ------------------------------------------------------------------

// Returns whether a statistic is per queue ("rx_q0_packets", "tx_queue_3_bytes"). Statistics per
// queue are not listed, because there may be hundreds.
static bool is_of_queue(const char *name) {
	return (strncmp(name, "rx_q", 4) == 0 || strncmp(name, "tx_q", 4) == 0) &&
	       strpbrk(name, "0123456789") != NULL;
}

static bool is_wanted(const struct weir_port_statistics *statistics, const char *name) {
	return !is_of_queue(name) &&
	       !(statistics->counts_refused && strcmp(name, "tx_errors") == 0);
}

static void list_xstats(
	struct weir_port_statistics *statistics, struct weir_port_counters *counters) {
	int n = rte_eth_xstats_get_names(statistics->device, NULL, 0);
	struct rte_eth_xstat_name *names;

	if (n <= 0 || n > XSTATS_READ_MAX) {
		return;
	}
	names = calloc((size_t)n, sizeof(*names));
	if (names == NULL ||
		rte_eth_xstats_get_names(statistics->device, names, (unsigned int)n) != n) {
		free(names);
		return;
	}
	for (int i = 0; i < n && statistics->xstats < WEIR_PORT_XSTATS; i++) {
		struct weir_port_xstat *xstat = &counters->xstat[statistics->xstats];

		if (!is_wanted(statistics, names[i].name)) {
			continue;
		}
		snprintf(xstat->name, sizeof(xstat->name), "%.*s", (int)sizeof(xstat->name) - 1,
			names[i].name);
		statistics->xstat[statistics->xstats++] = (uint64_t)i;
	}
	counters->xstats = statistics->xstats;
	free(names);
}

// --- both ---------------------------------------------------------------------------------

static bool is_driver(const struct weir_device *device, const char *driver) {
	return strncmp(device->name, driver, strlen(driver)) == 0;
}

void weir_port_statistics_init(struct weir_port_statistics *statistics,
	const struct weir_device *device, struct weir_port_counters *counters) {
	memset(statistics, 0, sizeof(*statistics));
	statistics->device = device->id;
	statistics->sockets = device->xdp_sockets;
	memcpy(statistics->socket, device->xdp_socket, sizeof(statistics->socket));
	statistics->counts_refused =
		is_driver(device, "net_af_xdp") || is_driver(device, "net_tap");
	// When extended statistics are read, net_af_xdp fills a struct inside DPDK. With more
	// than XDP_QUEUES_FIT queues it writes beyond the end of this struct. In this case, skip
	// the extended statistics, which only repeat other statistics.
	if (device->rx_queues <= XDP_QUEUES_FIT || !is_driver(device, "net_af_xdp")) {
		list_xstats(statistics, counters);
	}
}

static void set(uint64_t *counter, uint64_t value) {
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

// Sets a counter to a new value, unless the new value is lower. A counter must never decrease, but
// a sum of values that are read one after the other may be lower than the previous sum.
static void raise(uint64_t *counter, uint64_t value) {
	if (value > *counter) {
		set(counter, value);
	}
}

void weir_port_statistics_read(const struct weir_port_statistics *statistics, uint64_t now_ns,
	struct weir_port_counters *counters) {
	uint64_t values[WEIR_PORT_XSTATS];
	struct weir_port_counters now = {0};
	union roomy_stats read = {0};

	if (rte_eth_stats_get(statistics->device, &read.stats) == 0) {
		now.ipackets = read.stats.ipackets;
		now.ibytes = read.stats.ibytes;
		now.opackets = read.stats.opackets;
		now.obytes = read.stats.obytes;
		now.imissed = read.stats.imissed;
		now.ierrors = read.stats.ierrors;
		// Packets that the device has refused are not errors: the worker sends them again,
		// or drops them and counts them as tx_full.
		now.oerrors = statistics->counts_refused ? 0 : read.stats.oerrors;
		now.rx_nombuf = read.stats.rx_nombuf;
	}
	if (statistics->sockets > 0) {
		read_xdp(statistics, &now);
	}
#define X(field, unit, metric, text) raise(&counters->field, now.field);
	WEIR_PORT_COUNTERS(X)
#undef X
	if (statistics->xstats > 0 &&
		rte_eth_xstats_get_by_id(statistics->device, statistics->xstat, values,
			statistics->xstats) == (int)statistics->xstats) {
		for (uint32_t i = 0; i < statistics->xstats; i++) {
			set(&counters->xstat[i].value, values[i]);
		}
	}
	set(&counters->read_ns, now_ns);
}
