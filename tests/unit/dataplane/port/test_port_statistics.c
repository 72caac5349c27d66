// SPDX-License-Identifier: BSD-3-Clause
#include "port_statistics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "device_lab.h"
#include "test.h"

// Number of queues for which __wrap_rte_eth_stats_get writes counters, as net_af_xdp of DPDK 22.11
// does. 0 = the real function is called.
static uint32_t counted_queues;

int __real_rte_eth_stats_get(uint16_t device, struct rte_eth_stats *stats);
int __wrap_rte_eth_stats_get(uint16_t device, struct rte_eth_stats *stats);

int __wrap_rte_eth_stats_get(uint16_t device, struct rte_eth_stats *stats) {
	uint8_t *bytes = (uint8_t *)stats;

	if (counted_queues == 0) {
		return __real_rte_eth_stats_get(device, stats);
	}
	memset(stats, 0, sizeof(*stats));
	for (uint64_t q = 0; q < counted_queues; q++) {
		memcpy(bytes + offsetof(struct rte_eth_stats, q_obytes) + q * sizeof(q), &q,
			sizeof(q));
		stats->ipackets += q;
	}
	stats->oerrors = 8;
	return 0;
}

static uint64_t xstat(const struct weir_port_counters *counters, const char *name) {
	for (uint64_t i = 0; i < counters->xstats; i++) {
		if (strcmp(counters->xstat[i].name, name) == 0) {
			return counters->xstat[i].value;
		}
	}
	fail_msg("no extended statistic %s", name);
	return 0;
}

TEST_GROUP(device_lab_eal);

TEST(device_counters_are_read) {
	static struct weir_port_counters counters;
	const uint8_t frame[60] = "frame";
	struct weir_port_statistics statistics;
	struct rte_mbuf *pkts[8];
	struct weir_buffers buffers;
	struct weir_device device;
	struct ring_device ring;
	struct weir_plan plan;
	char why[256];

	ring_device_make("statistics", 2, &ring);
	device_lab_plan(ring.name, 2, &plan);
	weir_buffers_init(&buffers, plan.pool, plan.pools);
	assert_int_equal(
		weir_device_open(&plan.device[0], &buffers, 1, &device, why, sizeof(why)), 0);
	assert_int_equal(device.xdp_sockets, 0);
	weir_port_statistics_init(&statistics, &device, &counters);
	weir_port_statistics_read(&statistics, 5, &counters);
	assert_int_equal(counters.read_ns, 5);
	assert_int_equal(counters.ipackets, 0);
	for (unsigned int i = 0; i < 5; i++) {
		assert_true(ring_device_feed(&ring, i % 2, frame, sizeof(frame)));
	}
	assert_int_equal(rte_eth_rx_burst(device.id, 0, pkts, 8), 3);
	assert_int_equal(rte_eth_tx_burst(device.id, 1, pkts, 3), 3);
	assert_int_equal(rte_eth_rx_burst(device.id, 1, pkts, 8), 2);
	rte_pktmbuf_free_bulk(pkts, 2);
	weir_port_statistics_read(&statistics, 6, &counters);
	assert_int_equal(counters.ipackets, 5);
	assert_int_equal(counters.opackets, 3);
	assert_int_equal(counters.imissed, 0);
	assert_int_equal(xstat(&counters, "rx_good_packets"), 5);
	assert_int_equal(xstat(&counters, "tx_good_packets"), 3);
	for (uint64_t i = 0; i < counters.xstats; i++) { // counters of queues are omitted
		assert_null(strstr(counters.xstat[i].name, "_q0"));
	}
	// A counter never decreases, whatever a driver returns.
	rte_eth_stats_reset(device.id);
	weir_port_statistics_read(&statistics, 7, &counters);
	assert_int_equal(counters.ipackets, 5);
	weir_device_close(&device);
	weir_buffers_fini(&buffers);
	ring_device_free(&ring);
}

TEST(all_queues_of_af_xdp_are_counted) {
	static struct weir_port_counters counters;
	struct weir_device device = {.rx_queues = WEIR_QUEUES_MAX, .name = "net_af_xdp0"};
	struct weir_port_statistics statistics;
	struct ring_device ring;

	ring_device_make("queues", 1, &ring);
	assert_int_equal(rte_eth_dev_get_port_by_name(ring.name, &device.id), 0);
	weir_port_statistics_init(&statistics, &device, &counters);
	assert_int_equal(counters.xstats, 0);
	counted_queues = WEIR_QUEUES_MAX;
	weir_port_statistics_read(&statistics, 5, &counters);
	counted_queues = 0;
	assert_int_equal(counters.ipackets, WEIR_QUEUES_MAX * (WEIR_QUEUES_MAX - 1) / 2);
	assert_int_equal(counters.read_ns, 5);
	device.rx_queues = 16;
	weir_port_statistics_init(&statistics, &device, &counters);
	assert_true(counters.xstats > 0);
	ring_device_free(&ring);
}

static bool has_xstat(const struct weir_port_counters *counters, const char *name) {
	for (uint64_t i = 0; i < counters->xstats; i++) {
		if (strcmp(counters->xstat[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

// A packet that a full queue refuses is not counted as an error of the device, although it is
// offered to the device several times.
TEST(refused_packets_are_no_errors) {
	static const struct {
		const char *name;
		bool refused;
	} cases[] = {{"net_af_xdp0", true}, {"net_tap0", true}, {"0000:01:00.0", false}};
	struct ring_device ring;

	ring_device_make("refused", 1, &ring);
	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		struct weir_port_counters counters = {0};
		struct weir_device device = {.rx_queues = 1};
		struct weir_port_statistics statistics;

		snprintf(device.name, sizeof(device.name), "%s", cases[i].name);
		assert_int_equal(rte_eth_dev_get_port_by_name(ring.name, &device.id), 0);
		weir_port_statistics_init(&statistics, &device, &counters);
		assert_int_equal(has_xstat(&counters, "tx_errors"), !cases[i].refused);
		counted_queues = 1;
		weir_port_statistics_read(&statistics, 5, &counters);
		counted_queues = 0;
		assert_int_equal(counters.oerrors, cases[i].refused ? 0 : 8);
	}
	ring_device_free(&ring);
}

TEST(sockets_of_af_xdp_are_found) {
	int sockets[4], known, added, other;

	device_lab_need_root();
	assert_int_equal(weir_xdp_sockets(NULL, 0, sockets, 4), 0);
	known = socket(AF_XDP, SOCK_RAW, 0);
	other = socket(AF_INET, SOCK_DGRAM, 0);
	added = socket(AF_XDP, SOCK_RAW, 0);
	assert_true(known >= 0 && other >= 0 && added >= 0);
	assert_int_equal(weir_xdp_sockets(NULL, 0, sockets, 4), 2);
	assert_int_equal(weir_xdp_sockets(NULL, 0, sockets, 1), 1);
	assert_int_equal(weir_xdp_sockets(&known, 1, sockets, 4), 1);
	assert_int_equal(sockets[0], added);
	close(known);
	close(other);
	close(added);
}
