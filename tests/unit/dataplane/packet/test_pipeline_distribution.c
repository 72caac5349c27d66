// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline: the hash by which packets are distributed to workers. All fragments of a datagram have
// that of its flow.
#include "fragment_table.h"
#include "hash.h"
#include "pipeline.h"

#include <string.h>

#include "distribute.h"
#include "edges.h"
#include "flow_query.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "test.h"

#define SYN 0x02

TEST_GROUP(lab_eal);

TEST(pipeline_distribution_hash_is_that_of_the_flow) {
	struct lab *lab = lab_make();
	struct frame_spec spec = lab_tcp(1, SYN);
	struct weir_message message = lab_question(1);
	struct rte_mbuf *m;
	struct frame f;

	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	frame_build(&spec, &f);
	m = frame_mbuf(f.bytes, f.n, 0);
	assert_true(weir_pipeline_distribution_hash(m, LAB_SEED) == message.flow.hash);
	frame_mbuf_free(m);
	// the function never fails, and never reads beyond the packet
	for (unsigned int i = 0; i < edge_count; i++) {
		edge_build(&edges[i], &f);
		m = frame_mbuf(f.bytes, f.n, 0);
		if (edges[i].action == WEIR_ACTION_DROP && edges[i].quote == NULL &&
			edges[i].reason != WEIR_DROP_FRAGMENT_FIRST_MISSING &&
			(edges[i].reason != WEIR_DROP_FRAGMENT || edges[i].spec.family == 4) &&
			edges[i].reason != WEIR_DROP_FRAGMENT_TINY) {
			assert_true(weir_pipeline_distribution_hash(m, LAB_SEED) == 0);
		} else {
			weir_pipeline_distribution_hash(m, LAB_SEED);
		}
		frame_mbuf_free(m);
	}
	lab_free(lab);
}

// Returns the hash that the distributor uses for a packet. fragment: the flags and the fragment
// offset in the IPv4 header.
static uint64_t distribute_from(
	struct lab *lab, uint16_t source_port, uint16_t fragment, uint8_t id) {
	const struct frame_spec spec = {.family = 4,
		.protocol = 17,
		.source_port = source_port,
		.destination_port = 53,
		.payload = 24};
	struct rte_mbuf *m;
	struct frame f;
	uint64_t hash;

	frame_build(&spec, &f);
	f.bytes[f.l3 + 5] = id;
	frame_put16(f.bytes + f.l3 + 6, fragment);
	frame_fix_ipv4(&f);
	m = frame_mbuf(f.bytes, f.n, 0);
	hash = weir_pipeline_distribute(lab->pipeline, m);
	frame_mbuf_free(m);
	return hash;
}

static uint64_t distribute(struct lab *lab, uint16_t fragment, uint8_t id) {
	return distribute_from(lab, 1000, fragment, id);
}

// All fragments of a datagram go to the worker of its flow.
TEST(pipeline_fragments_are_distributed_with_their_flow) {
	struct frame_spec any = lab_tcp(1, SYN);
	struct lab *lab = lab_make();
	uint64_t flow;

	lab_send(lab, &any); // the pipeline loads the VIPs
	flow = distribute(lab, 0, 7);
	// the first fragment of this datagram has not arrived
	assert_true(distribute(lab, 4, 7) != flow);
	assert_true(distribute(lab, 0x2000, 7) == flow);
	assert_true(distribute(lab, 4, 7) == flow);
	assert_true(distribute(lab, 0x2004, 7) == flow);
	assert_true(distribute(lab, 4, 8) != flow);
	lab_free(lab);
}

// Returns the hash for an IPv6 fragment of a UDP packet. Destination options follow the fragment
// header. part: offset and M flag of the fragment header; next: next header field of the fragment
// header.
static uint64_t distribute6(struct lab *lab, uint16_t part, uint8_t next) {
	uint8_t chain[] = {next, 0, (uint8_t)(part >> 8), (uint8_t)part, 0, 0, 0, 7, // id
		17, 0, 1, 4, 0, 0, 0, 0};
	const struct frame_spec spec = {.family = 6,
		.protocol = 17,
		.first_header = 44,
		.options = chain,
		.option_bytes = sizeof(chain),
		.destination_port = 53,
		.payload = 24};
	struct rte_mbuf *m;
	struct frame f;
	uint64_t hash;

	frame_build(&spec, &f);
	m = frame_mbuf(f.bytes, f.n, 0);
	hash = weir_pipeline_distribute(lab->pipeline, m);
	frame_mbuf_free(m);
	return hash;
}

TEST(pipeline_ipv6_fragments_of_options_are_distributed_with_their_flow) {
	struct frame_spec any = lab_tcp(1, SYN);
	struct lab *lab = lab_make();
	uint64_t flow;

	lab_send(lab, &any);
	flow = distribute6(lab, 0, 60); // an atomic fragment is a whole packet
	// the first fragment of this datagram has not arrived
	assert_true(distribute6(lab, 0x101, 60) != flow);
	assert_true(distribute6(lab, 1, 60) == flow);
	assert_true(distribute6(lab, 0x101, 60) == flow);
	assert_true(distribute6(lab, 0x201, 6) == flow); // the next header is ignored
	lab_free(lab);
}

// A client may reuse an identification as soon as its datagram is complete. This is frequent if
// several clients share an address (NAT).
TEST(pipeline_fragments_of_a_reused_identification_go_with_their_own_flow) {
	struct frame_spec any = lab_tcp(1, SYN);
	struct lab *lab = lab_make();
	uint64_t flow, other;

	lab_send(lab, &any);
	flow = distribute_from(lab, 1000, 0, 7);
	other = distribute_from(lab, 2000, 0, 7);
	assert_true(flow != other);
	for (unsigned int turn = 0; turn < 2; turn++) {
		assert_true(distribute_from(lab, 1000, 0x2000, 7) == flow);
		// a first fragment is distributed by its own ports
		assert_true(distribute_from(lab, 2000, 0x2000, 7) == other);
		assert_true(distribute_from(lab, 1000, 4, 7) == flow); // the last fragment
		assert_true(distribute_from(lab, 2000, 0x2000, 7) == other);
		assert_true(distribute_from(lab, 2000, 4, 7) == other);
	}
	lab_free(lab);
}

// id: identification in the packet.
static struct weir_verdict send_fragment(struct lab *lab, uint16_t fragment, uint16_t id) {
	const struct frame_spec spec = {
		.family = 4, .protocol = 17, .destination_port = 53, .payload = 24};
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct frame f;

	frame_build(&spec, &f);
	memcpy(f.bytes + f.l3 + 4, &id, 2);
	frame_put16(f.bytes + f.l3 + 6, fragment);
	frame_fix_ipv4(&f);
	m = frame_mbuf(f.bytes, f.n, 128);
	verdict = lab_process(lab, m);
	frame_mbuf_free(m);
	return verdict;
}

// The hash of the fragment table uses a secret. Without the secret, an attacker who has read the
// epoch in the log could choose fragments that belong to the same bucket as a certain datagram, and
// so replace the entry of this datagram.
TEST(pipeline_fragment_table_has_a_secret) {
	struct weir_pipeline_params params = lab_params();
	struct weir_flow_key key = {.family = 4, .protocol = 17};
	struct weir_fragment_entry *first, *entry;
	struct weir_fragment_table *guessed;
	unsigned int found = 0;
	struct lab *lab;

	params.flow_table.secret = 0x1234567890ull;
	params.fragments.entries = 256;
	params.fragments.timeout_ms = 5000;
	lab = lab_open(&params);
	lab_publish_default(lab);
	memcpy(key.source, frame_client4, 4);
	memcpy(key.destination, frame_vip4, 4);
	assert_int_equal(weir_fragment_table_create(256, 5000,
				 weir_hash_mix(lab->segment->epoch,
					 lab->params.worker + 0x9e3779b97f4a7c15ull),
				 SOCKET_ID_ANY, &guessed),
		0);
	first = weir_fragment_enter(guessed, &key, 7, LAB_NOW);
	assert_int_equal(send_fragment(lab, 0x2000, 7).action, WEIR_ACTION_FORWARD);
	for (uint16_t id = 8; found < 4; id++) {
		entry = weir_fragment_enter(guessed, &key, id, LAB_NOW);
		if (entry >= first && entry < first + 4) { // an entry in the same bucket
			assert_int_equal(
				send_fragment(lab, 0x2000, id).action, WEIR_ACTION_FORWARD);
			found++;
		}
	}
	assert_null(weir_fragment_find(guessed, &key, 7, LAB_NOW));
	assert_int_equal(send_fragment(lab, 4, 7).action, WEIR_ACTION_FORWARD);
	weir_fragment_table_free(guessed);
	lab_free(lab);
}
