// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of engine and distance, with a ring that returns every packet and with devices that lose
// packets.
#include "engine.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "distance.h"
#include "test.h"

#define RING 256u
#define BUFFERS 1023u
#define FLOWS 500u

static const struct rig_traffic_params traffic = {.protocol = IPPROTO_TCP,
	.frame_bytes = RIG_FRAME_MIN,
	.flows = FLOWS,
	.vip = 0xc633640a,
	.port = 80};

static const struct rig_trial_params in_turn = {.rate_pps = 20000,
	.seconds = 30,
	.packets = FLOWS,
	.burst = 16,
	.trial = 1,
	.kind = RIG_SYN,
	.in_order = true,
	.verify = true};

struct lab {
	struct rte_ring *ring;
	struct rte_mempool *pool;
	uint16_t port;
	struct rig_engine *engine;
};

static uint16_t start_port(struct rte_ring *receive, struct rte_ring *send, const char *name,
	struct rte_mempool *pool) {
	struct rte_eth_conf conf = {0};
	int port = rte_eth_from_rings(name, &receive, 1, &send, 1, 0);

	assert_true(port >= 0);
	assert_int_equal(rte_eth_dev_configure((uint16_t)port, 1, 1, &conf), 0);
	assert_int_equal(rte_eth_rx_queue_setup((uint16_t)port, 0, RING, 0, NULL, pool), 0);
	assert_int_equal(rte_eth_tx_queue_setup((uint16_t)port, 0, RING, 0, NULL), 0);
	assert_int_equal(rte_eth_dev_start((uint16_t)port), 0);
	return (uint16_t)port;
}

static int setup(void **state) {
	static unsigned int number;
	struct lab *lab = calloc(1, sizeof(*lab));
	struct rig_engine_params params = {0};
	char name[32];

	assert_non_null(lab);
	snprintf(name, sizeof(name), "rig_%u", number++);
	lab->ring = rte_ring_create(name, RING, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
	lab->pool = rte_pktmbuf_pool_create(name, BUFFERS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	assert_non_null(lab->ring);
	assert_non_null(lab->pool);
	lab->port = start_port(lab->ring, lab->ring, name, lab->pool);
	params.send_port = lab->port;
	params.receive_port = lab->port;
	params.pool = lab->pool;
	assert_int_equal(rig_engine_create(&params, &lab->engine), 0);
	assert_int_equal(rig_engine_set_traffic(lab->engine, &traffic), 0);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;
	void *m;

	rig_engine_free(lab->engine);
	while (rte_ring_dequeue(lab->ring, &m) == 0) {
		rte_pktmbuf_free(m);
	}
	// All buffers were freed.
	assert_int_equal(rte_mempool_in_use_count(lab->pool), 0);
	rte_eth_dev_stop(lab->port);
	rte_eth_dev_close(lab->port);
	rte_ring_free(lab->ring);
	rte_mempool_free(lab->pool);
	free(lab);
	return 0;
}

static int start_eal(__attribute__((unused)) void **state) {
	char cpu[16], *words[] = {"test_rig_engine", "--no-huge", "--no-shconf", "--no-pci",
			      "--no-telemetry", "-m64", "--lcores", cpu, "--log-level=error", NULL};

	snprintf(cpu, sizeof(cpu), "0@%d", sched_getcpu());
	return rte_eal_init((int)(sizeof(words) / sizeof(*words)) - 1, words) < 0 ? -1 : 0;
}

static int stop_eal(__attribute__((unused)) void **state) {
	return rte_eal_cleanup();
}

TEST_GROUP(start_eal, stop_eal);

TEST(each_flow_in_turn_returns, setup, teardown) {
	struct lab *lab = *state;
	struct rig_result result;

	assert_int_equal(rig_engine_run(lab->engine, &in_turn, &result), 0);
	assert_int_equal(result.offered, FLOWS);
	assert_int_equal(result.sent + result.refused, FLOWS);
	assert_int_equal(result.received, result.sent);
	assert_int_equal(result.unexpected + result.broken + result.moved + result.stragglers, 0);
	assert_int_equal(rig_engine_latency(lab->engine)->count, result.received);
	// At 20,000 packets per second, sending takes at least a fortieth of a second.
	assert_true(result.seconds > 0.02);
}

TEST(rate_is_kept, setup, teardown) {
	struct rig_trial_params params = {
		.rate_pps = 10000, .seconds = 0.5, .burst = 32, .trial = 2, .kind = RIG_DATA};
	struct lab *lab = *state;
	struct rig_result result;

	assert_int_equal(rig_engine_run(lab->engine, &params, &result), 0);
	// On a busy machine, the generator may skip packets. Skipped packets are counted.
	assert_in_range(result.offered + result.skipped, 4999, 5000);
	assert_int_equal(result.received, result.sent);
}

TEST(full_speed_is_not_paced, setup, teardown) {
	struct rig_trial_params params = {
		.seconds = 0.1, .burst = 32, .trial = 3, .kind = RIG_DATA};
	struct lab *lab = *state;
	struct rig_result result;

	assert_int_equal(rig_engine_run(lab->engine, &params, &result), 0);
	assert_true(result.received > 1000);
	assert_int_equal(result.offered, result.sent);
	assert_int_equal(result.refused + result.skipped, 0);
	assert_true(result.quiet_offered <= result.offered + params.burst);
	assert_int_equal(result.quiet_refused, 0);
}

// Packets that the device refuses are counted as lost.
TEST(full_ring_refuses, setup, teardown) {
	struct rig_trial_params params = in_turn;
	struct lab *lab = *state;
	struct rte_ring *nobody = rte_ring_create("nobody", RING, 0, 0);
	struct rig_engine_params blocked = {.pool = lab->pool};
	struct rig_engine *engine;
	struct rig_result result;
	void *m;

	blocked.send_port = start_port(lab->ring, nobody, "blocked", lab->pool);
	blocked.receive_port = blocked.send_port;
	assert_int_equal(rig_engine_create(&blocked, &engine), 0);
	assert_int_equal(rig_engine_set_traffic(engine, &traffic), 0);
	assert_int_equal(rig_engine_run(engine, &params, &result), 0);
	assert_int_equal(result.offered, FLOWS);
	assert_int_equal(result.sent, RING - 1);
	assert_int_equal(result.refused, FLOWS - RING + 1);
	assert_int_equal(result.received, 0);
	// No packet came back, so time slices are counted as disturbed.
	assert_true(result.disturbed_slices > 0);
	rig_engine_free(engine);
	while (rte_ring_dequeue(nobody, &m) == 0) {
		rte_pktmbuf_free(m);
	}
	rte_eth_dev_stop(blocked.send_port);
	rte_eth_dev_close(blocked.send_port);
	rte_ring_free(nobody);
}

TEST(missing_buffers_are_reported, setup, teardown) {
	struct rig_trial_params params = {
		.rate_pps = 0, .seconds = 1, .burst = 32, .trial = 4, .kind = RIG_DATA};
	struct lab *lab = *state;
	struct rte_mbuf *taken[BUFFERS];
	struct rig_result result;

	assert_int_equal(rte_pktmbuf_alloc_bulk(lab->pool, taken, BUFFERS), 0);
	assert_int_equal(rig_engine_run(lab->engine, &params, &result), -ENOMEM);
	rte_pktmbuf_free_bulk(taken, BUFFERS);
}

TEST(wrong_traffic_changes_nothing, setup, teardown) {
	struct rig_traffic_params params = traffic;
	struct lab *lab = *state;
	struct rig_result result;

	params.flows = 0;
	assert_int_equal(rig_engine_set_traffic(lab->engine, &params), -EINVAL);
	assert_int_equal(rig_engine_run(lab->engine, &in_turn, &result), 0);
	assert_int_equal(result.received, result.sent);
}

TEST(distance_of_two_cpus) {
	unsigned int other = (unsigned int)sched_getcpu() == 0 ? 1 : 0;
	double ns = -1;
	int r;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		skip();
	}
	r = rig_distance(other, &ns);
	// -EAGAIN is also valid: the CPUs may be busy.
	assert_true((r == 0 && ns > 1 && ns < 5000) || (r == -EAGAIN && ns == -1));
	assert_true(rig_distance(CPU_SETSIZE - 1, &ns) < 0);
}
