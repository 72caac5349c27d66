// SPDX-License-Identifier: BSD-3-Clause
//
// Dataplane: all parts together, with three workers on one CPU. The test sends packets to the
// devices, and receives the packets that the devices send.
#include "dataplane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_ring.h>

#include "device_lab.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "test.h"

#define FLOWS 120
#define ROUNDS 50
#define ACK 0x10
#define DEADLINE_S 30

struct world {
	struct ring_device wan, lan, other, kernel;
	struct weir_config *config;
	struct weir_plan plan;
	struct weir_log log;
	struct weir_dataplane *dataplane;
	struct lab lab; // publishes the default tables
};

static double now_s(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void nap(void) {
	nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static struct weir_config *parse(const char *text) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;

	if (weir_config_parse(text, strlen(text), &config, &errors) < 0) {
		fail_msg("%s: %s", errors.error[0].path, errors.error[0].reason);
	}
	weir_config_errors_fini(&errors);
	return config;
}

// Configure the lab's three ports. TCP backends are behind port 2, UDP backends behind port 0.
static void configure(struct world *w, unsigned int number) {
	char name[4][32], text[1024], why[512];
	struct ring_device *rings[4] = {&w->other, &w->wan, &w->lan, &w->kernel};

	for (unsigned int i = 0; i < 4; i++) {
		snprintf(name[i], sizeof(name[i]), "dp%u_%u", number, i);
		ring_device_make(name[i], i == 1 ? 2 : 1, rings[i]);
	}
	snprintf(text, sizeof(text),
		"{\"instance\":{\"hash_seed\":\"0x%llx\"},\"ports\":["
		"{\"name\":\"other\",\"device\":\"%s\"},"
		"{\"name\":\"wan\",\"device\":\"%s\",\"queues\":2,\"exception\":\"%s\"},"
		"{\"name\":\"lan\",\"device\":\"%s\",\"vlan\":9}],"
		"\"workers\":{\"cores\":[0,0,0],\"idle\":\"yield\"},"
		"\"flow_table\":{\"flows_per_worker\":4096},"
		"\"segment\":{\"max_services\":8,\"max_backends\":16,\"heap_bytes\":67108864},"
		"\"services\":[]}",
		(unsigned long long)LAB_SEED, w->other.name, w->wan.name, w->kernel.name,
		w->lan.name);
	w->config = parse(text);
	assert_int_equal(weir_plan_make(w->config, "none", &w->plan, why, sizeof(why)), 0);
}

static struct world *make(unsigned int number) {
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	configure(w, number);
	w->log = (struct weir_log){.fd = STDERR_FILENO, .level = WEIR_LOG_ERROR};
	assert_int_equal(weir_dataplane_open(w->config, &w->plan, &w->log, &w->dataplane), 0);
	w->lab.segment = (struct weir_segment *)(uintptr_t)weir_dataplane_segment(w->dataplane);
	assert_int_equal(weir_segment_attach_own(w->lab.segment, &w->lab.control), 0);
	assert_int_equal(weir_writer_open(w->lab.control, &w->lab.writer), 0);
	assert_int_equal(weir_writer_reserve(w->lab.writer, LAB_SERVICES, LAB_BACKENDS), 0);
	lab_publish_default(&w->lab);
	assert_int_equal(weir_dataplane_start(w->dataplane), 0);
	return w;
}

static void unmake(struct world *w) {
	struct ring_device *rings[4] = {&w->other, &w->wan, &w->lan, &w->kernel};

	weir_writer_free(w->lab.writer);
	weir_segment_free(w->lab.control);
	if (w->dataplane != NULL) {
		weir_dataplane_close(w->dataplane, true);
	}
	weir_config_free(w->config);
	for (unsigned int i = 0; i < 4; i++) {
		ring_device_free(rings[i]);
	}
	assert_int_equal(device_lab_in_use(), 0);
	free(w);
}

static uint64_t sum(const struct world *w, size_t offset) {
	uint64_t total = 0;

	for (uint32_t i = 0; i < w->lab.segment->workers; i++) {
		total += weir_counter_read((const uint64_t *)(const void
				*)((const uint8_t *)&w->lab.segment->worker_counters[i] + offset));
	}
	return total;
}

#define SUM(w, field) sum(w, offsetof(struct weir_worker_counters, field))

static void wait_until_on(const struct ring_device *device, uint32_t packets) {
	double deadline = now_s() + DEADLINE_S;

	while (rte_ring_count(device->from[0]) < packets) {
		if (now_s() > deadline) {
			fail_msg("%u packets on the wire, not %u", rte_ring_count(device->from[0]),
				packets);
		}
		nap();
	}
}

// Feed a data packet of a flow. `number` is its TCP sequence number.
static void feed_numbered(struct world *w, uint16_t flow, uint32_t number) {
	struct frame_spec spec = lab_tcp(flow, ACK);
	struct frame f;

	frame_build(&spec, &f);
	frame_put32(f.bytes + f.l4 + 4, number);
	// A kernel may move a flow to another queue. The flow must stay on its worker.
	assert_true(ring_device_feed(&w->wan, (uint16_t)(number / 4 % 2), f.bytes, f.n));
}

// Find the inner packet's flow and number.
static void read_numbered(struct rte_mbuf *m, uint16_t *flow, uint32_t *number) {
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *) + 12;

	if (frame_get16(p) == 0x8100) {
		p += 4;
	}
	p += frame_get16(p) == 0x0800 ? 2 + 20 : 2 + 40;
	*flow = (uint16_t)(frame_get16(p + 20) - 1024);
	*number = frame_get32(p + 20 + 4);
}

// --- tests --------------------------------------------------------------------------------

TEST_GROUP(device_lab_eal);

TEST(flows_stay_on_their_worker_and_in_order) {
	struct world *w = make(1);
	uint32_t next[FLOWS] = {0};

	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint16_t flow = 0; flow < FLOWS; flow++) {
			feed_numbered(w, flow, round);
		}
		// A ring to a worker has room for several rounds, but not for all rounds.
		if (round % 4 == 3 || round == ROUNDS - 1) {
			wait_until_on(&w->lan, (round + 1) * FLOWS);
		}
	}
	weir_dataplane_stop(w->dataplane);
	for (uint32_t i = 0; i < FLOWS * ROUNDS; i++) {
		struct rte_mbuf *m = ring_device_take(&w->lan, 0);
		uint32_t number;
		uint16_t flow;

		assert_non_null(m);
		read_numbered(m, &flow, &number);
		rte_pktmbuf_free(m);
		assert_in_range(flow, 0, FLOWS - 1);
		assert_int_equal(number, next[flow]);
		next[flow]++;
	}
	assert_null(ring_device_take(&w->lan, 0));
	// A flow processed by two workers would be counted as new twice.
	assert_int_equal(SUM(w, flow_new), FLOWS);
	assert_int_equal(SUM(w, forwarded), FLOWS * ROUNDS);
	assert_int_equal(SUM(w, tx_packets), FLOWS * ROUNDS);
	assert_int_equal(SUM(w, rx_packets), FLOWS * ROUNDS + SUM(w, handed_over));
	assert_int_equal(SUM(w, dropped), 0);
	for (uint32_t i = 0; i < 3; i++) {
		assert_in_range(w->lab.segment->worker_counters[i].flow_new, FLOWS / 8, FLOWS / 2);
	}
	unmake(w);
}

TEST(the_kernel_exchanges_packets_with_any_worker) {
	struct world *w = make(2);
	struct rte_mbuf *m;
	struct frame f;

	for (uint16_t n = 0; n < 60; n++) {
		struct frame_spec spec = lab_tcp(n, ACK);

		spec.destination = frame_stranger4;
		frame_build(&spec, &f);
		assert_true(ring_device_feed(&w->wan, 0, f.bytes, f.n));
		assert_true(ring_device_feed(&w->kernel, 0, f.bytes, f.n));
	}
	wait_until_on(&w->kernel, 60);
	wait_until_on(&w->wan, 60);
	m = ring_device_take(&w->wan, 0);
	assert_int_equal(m->pkt_len, f.n);
	rte_pktmbuf_free(m);
	weir_dataplane_stop(w->dataplane);
	assert_int_equal(SUM(w, to_kernel), 60);
	assert_int_equal(SUM(w, dropped), 0);
	unmake(w);
}

TEST(ports_are_described_to_control) {
	struct world *w = make(3);
	const struct weir_segment_header *header = w->lab.segment->header;
	const struct weir_handover *offer = weir_dataplane_offer(w->dataplane);

	assert_int_equal(header->ports, 3);
	assert_int_equal(header->workers, 3);
	assert_int_equal(header->hash_seed, LAB_SEED);
	assert_int_equal(header->dataplane_pid, getpid());
	assert_string_equal(header->port[1].name, "wan");
	assert_string_equal(header->port[2].name, "lan");
	assert_int_equal(header->port[2].vlan, 9);
	assert_int_equal(header->port[2].mtu, 1500);
	assert_int_equal(header->port[1].steered, 0);
	assert_int_equal(header->port[1].kernel_ifindex, 0);
	assert_int_equal(offer->statistics_fd, w->lab.segment->statistics_fd);
	assert_int_equal(offer->tables_fd, w->lab.segment->tables_fd);
	assert_int_equal(offer->vip_maps, 3);
	assert_int_equal(offer->vip_map_fd[0], -1);
	unmake(w);
}

TEST(a_missing_device_ends_it_cleanly) {
	struct weir_dataplane *dataplane = NULL;
	struct weir_log log = {.level = WEIR_LOG_ERROR};
	struct ring_device ring;
	struct weir_plan plan;
	char text[512], why[512], written[2048] = "";
	struct weir_config *config;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	log.fd = fds[1];
	ring_device_make("dp4_0", 1, &ring);
	snprintf(text, sizeof(text),
		"{\"ports\":[{\"name\":\"a\",\"device\":\"%s\"},"
		"{\"name\":\"b\",\"device\":\"net_af_packet9,iface=no-such-if\"}],"
		"\"flow_table\":{\"flows_per_worker\":1024},\"services\":[]}",
		ring.name);
	config = parse(text);
	assert_int_equal(weir_plan_make(config, "none", &plan, why, sizeof(why)), 0);
	assert_int_equal(weir_dataplane_open(config, &plan, &log, &dataplane), -ENODEV);
	assert_null(dataplane);
	assert_true(read(fds[0], written, sizeof(written) - 1) > 0);
	assert_non_null(strstr(written, "port b"));
	assert_non_null(strstr(written, "no-such-if"));
	weir_config_free(config);
	ring_device_free(&ring);
	close(fds[0]);
	close(fds[1]);
}

TEST(flow_tables_that_do_not_fit_name_their_key) {
	struct world *w = calloc(1, sizeof(*w));
	char written[2048] = "";
	int fds[2];

	assert_non_null(w);
	assert_int_equal(pipe(fds), 0);
	configure(w, 5);
	w->log = (struct weir_log){.fd = fds[1], .level = WEIR_LOG_ERROR};
	w->config->flow_table.flows_per_worker = 1u << 28;
	assert_int_equal(weir_dataplane_open(w->config, &w->plan, &w->log, &w->dataplane), -ENOMEM);
	assert_true(read(fds[0], written, sizeof(written) - 1) > 0);
	assert_non_null(strstr(written, "lower flow_table.flows_per_worker"));
	close(fds[0]);
	close(fds[1]);
	unmake(w);
}
