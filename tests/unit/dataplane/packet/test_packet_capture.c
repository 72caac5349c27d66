// SPDX-License-Identifier: BSD-3-Clause
//
// Packet capture with buckets. A packet's bucket comes from the hash of its key, or from RSS. A
// record has the bucket that the distributor determined, and the state of the flow.
#include "packet_capture.h"

#include <stdlib.h>
#include <string.h>

#include "burst.h"
#include "distribute.h"
#include "flow_memory.h"
#include "flow_parts.h"
#include "pipeline_lab.h"
#include "pipeline_parts.h"
#include "test.h"

#define SYN 0x02
#define ACK 0x10
#define FLOWS 40u

static const struct weir_rss_key key = {{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77,
	0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa}};

struct own {
	struct lab *lab;
	struct weir_flow_memory *memory;
	struct weir_packet_capture *capture;
	uint64_t number;
};

static struct own make(const struct weir_rss_key *rss) {
	const struct weir_capture_terms terms = {.interval_ns = 1000,
		.snap_bytes = WEIR_CAPTURE_SNAP_LEAST,
		.service = WEIR_SERVICE_NONE,
		.backend = WEIR_BACKEND_NONE};
	struct weir_pipeline_params params = lab_params();
	struct own own;

	assert_int_equal(weir_flow_memory_create(16384, 25, true, SOCKET_ID_ANY, &own.memory), 0);
	params.flow_table.memory = own.memory;
	params.flow_table.secret = 4711;
	params.rss = rss;
	own.lab = lab_open(&params);
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		weir_pipeline_own_part(own.lab->pipeline, part);
	}
	lab_publish_default(own.lab);
	weir_pipeline_settle(own.lab->pipeline);
	assert_int_equal(
		weir_packet_capture_create(own.lab->pipeline, SOCKET_ID_ANY, &own.capture), 0);
	own.number = weir_capture_order(own.lab->control, &terms, UINT64_MAX);
	return own;
}

static void unmake(struct own *own) {
	weir_packet_capture_free(own->capture);
	lab_check_counters(own->lab);
	lab_free(own->lab);
	weir_flow_memory_free(own->memory);
}

// Process a packet in the distributor and in the pipeline. Returns its record, and in ret the
// bucket that the distributor determined.
static struct weir_capture_record process(
	struct own *own, const struct frame_spec *spec, uint32_t *ret) {
	struct weir_capture_packet packet;
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct frame f;
	uint16_t n = 1;

	frame_build(spec, &f);
	m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
	*ret = weir_pipeline_distribute(own->lab->pipeline, m);
	m->hash.usr = *ret;
	assert_true(weir_packet_capture_begin(own->capture, &m, &n, LAB_IN_PORT, own->lab->now_ns));
	verdict = lab_process(own->lab, m);
	weir_packet_capture_note(own->capture, &verdict);
	frame_mbuf_free(m); // simulates that the packet was sent
	weir_packet_capture_end(own->capture);
	assert_true(weir_capture_take(
		own->lab->control, own->lab->params.worker, own->number, &packet));
	assert_int_equal(packet.record.saved, RTE_MIN(f.n, WEIR_CAPTURE_SNAP_LEAST));
	assert_memory_equal(packet.data, f.bytes, packet.record.saved);
	return packet.record;
}

static void follow_flows(struct own *own) {
	uint32_t different = 0, last = WEIR_CAPTURE_NO_BUCKET;

	for (uint16_t n = 0; n < FLOWS; n++) {
		struct frame_spec spec = {.family = n % 2 == 0 ? 4 : 6,
			.protocol = 6,
			.source_port = (uint16_t)(1000 + n),
			.tcp_flags = SYN};
		struct weir_capture_record syn, data, fast;
		uint32_t bucket;

		syn = process(own, &spec, &bucket);
		assert_int_equal(syn.bucket, bucket);
		assert_int_equal(syn.flow_state, WEIR_FLOW_SYN_SEEN);
		assert_int_equal(syn.path, WEIR_CAPTURE_PATH_SLOW);
		spec.tcp_flags = ACK;
		spec.payload = 20;
		data = process(own, &spec, &bucket);
		fast = process(own, &spec, &bucket);
		assert_int_equal(data.flow_state, WEIR_FLOW_ESTABLISHED);
		assert_int_equal(fast.flow_state, WEIR_FLOW_ESTABLISHED);
		assert_int_equal(fast.path, WEIR_CAPTURE_PATH_FAST);
		assert_int_equal(fast.bucket, syn.bucket);
		assert_true(fast.hash == syn.hash && data.hash == syn.hash);
		assert_int_equal(fast.backend, syn.backend);
		different += syn.bucket != last;
		last = syn.bucket;
	}
	assert_true(different > FLOWS / 2);
}

TEST_GROUP(lab_eal);

TEST(buckets_of_hashes_are_recorded) {
	struct own own = make(NULL);

	follow_flows(&own);
	unmake(&own);
}

TEST(buckets_of_rss_are_recorded) {
	struct own own = make(&key);

	follow_flows(&own);
	unmake(&own);
}

TEST(packets_without_a_flow_have_no_state) {
	const struct frame_spec echo = {.family = 4, .protocol = 1, .icmp_type = 8};
	struct own own = make(NULL);
	struct weir_capture_record record;
	uint32_t bucket;

	record = process(&own, &echo, &bucket);
	assert_int_equal(record.kind, WEIR_PACKET_ECHO);
	assert_int_equal(record.bucket, WEIR_CAPTURE_NO_BUCKET);
	assert_int_equal(record.flow_state, WEIR_CAPTURE_NONE);
	assert_int_equal(record.hash, 0);
	unmake(&own);
}
