// SPDX-License-Identifier: BSD-3-Clause
//
// Parts of the flow table that are chosen by RSS hashes. All packets of a flow belong to one part,
// whatever hash a device provides, and the pipeline finds the flow in this part.
#include <stdlib.h>
#include <string.h>

#include <rte_memory.h>

#include "burst.h"
#include "distribute.h"
#include "flow_parts.h"
#include "flow_query.h"
#include "pipeline_lab.h"
#include "pipeline_parts.h"
#include "test.h"

#define SYN 0x02
#define ACK 0x10
#define NO_HASH UINT64_MAX // the device has reported no hash

struct rss_lab {
	struct lab *lab;
	struct weir_flow_memory *memory;
};

static const struct weir_rss_key key = {{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77,
	0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa}};

static struct rss_lab make(void) {
	struct weir_selection_params selection =
		weir_selection_defaults(0, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
	struct weir_pipeline_params params = lab_params();
	struct rss_lab rss;

	assert_int_equal(weir_flow_memory_create(16384, 25, true, SOCKET_ID_ANY, &rss.memory), 0);
	params.flow_table.memory = rss.memory;
	params.flow_table.secret = 4711;
	params.rss = &key;
	rss.lab = lab_open(&params);
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		weir_pipeline_own_part(rss.lab->pipeline, part);
	}
	lab_publish_default(rss.lab);
	// With this policy, a flow that the pipeline does not find goes to another backend.
	lab_publish_policy(rss.lab, &selection, (uint16_t[]){0, 1, 2, 3}, 4);
	weir_pipeline_settle(rss.lab->pipeline);
	return rss;
}

static void unmake(struct rss_lab *rss) {
	lab_check_counters(rss->lab);
	lab_free(rss->lab);
	weir_flow_memory_free(rss->memory);
}

// Returns the part that the distributor determines for a frame with this hash from the device.
static uint32_t distribute(
	const struct rss_lab *rss, const struct frame *f, uint64_t hash, struct rte_mbuf **ret) {
	struct rte_mbuf *m = frame_mbuf(f->bytes, f->n, RTE_PKTMBUF_HEADROOM);
	uint32_t part;

	if (hash != NO_HASH) {
		m->hash.rss = (uint32_t)hash;
		m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
	}
	part = weir_pipeline_distribute(rss->lab->pipeline, m);
	assert_true(part < WEIR_FLOW_PARTS);
	m->hash.usr = part;
	*ret = m;
	return part;
}

static uint32_t part_of(const struct rss_lab *rss, const struct frame *f, uint64_t hash) {
	struct rte_mbuf *m;
	uint32_t part = distribute(rss, f, hash, &m);

	frame_mbuf_free(m);
	return part;
}

static struct weir_verdict process(
	const struct rss_lab *rss, const struct frame_spec *spec, uint64_t hash) {
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct frame f;

	frame_build(spec, &f);
	(void)distribute(rss, &f, hash, &m);
	verdict = lab_process(rss->lab, m);
	frame_mbuf_free(m);
	return verdict;
}

// Returns the RSS hash that a device computes.
static uint32_t hash_of(const struct frame_spec *spec) {
	struct weir_flow_key flow = {.family = spec->family,
		.protocol = spec->protocol,
		.source_port = rte_cpu_to_be_16(spec->source_port),
		.destination_port = rte_cpu_to_be_16(
			spec->destination_port != 0 ? spec->destination_port : 80)};
	uint32_t bytes = spec->family == 4 ? 4 : 16;

	memcpy(flow.source, spec->family == 4 ? frame_client4 : frame_client6, bytes);
	memcpy(flow.destination, spec->family == 4 ? frame_vip4 : frame_vip6, bytes);
	return weir_rss_hash(&key, &flow);
}

static struct frame_spec packet(uint16_t n, uint8_t family, uint8_t protocol, uint8_t flags) {
	struct frame_spec spec = lab_tcp(n, flags);

	spec.family = family;
	spec.protocol = protocol;
	spec.destination_port = protocol == 6 ? 80 : 53;
	spec.payload = 32;
	return spec;
}

// Packets other than plain TCP and UDP may have no hash, or a hash of only their addresses.
static void check_odd_packets(const struct rss_lab *rss, const struct frame_spec *plain) {
	const uint64_t hashes[] = {NO_HASH, 0x12345678};
	const uint8_t options[4] = {1, 1, 1, 1};
	const uint32_t part = hash_of(plain) % WEIR_FLOW_PARTS;
	struct frame_spec odd = *plain;
	struct frame f, error;

	for (unsigned int i = 0; i < 2; i++) {
		odd = *plain;
		odd.tags = 1;
		frame_build(&odd, &f);
		assert_int_equal(part_of(rss, &f, hashes[i]), part);
		odd = *plain;
		if (plain->family == 4) {
			odd.options = options;
			odd.option_bytes = sizeof(options);
		}
		frame_build(&odd, &f);
		assert_int_equal(part_of(rss, &f, plain->family == 4 ? hashes[i] : NO_HASH), part);
		// An ICMP error that the client sends about a packet from the backend. The error
		// quotes the flow's addresses and ports in reverse.
		odd = *plain;
		odd.source = plain->family == 4 ? frame_vip4 : frame_vip6;
		odd.destination = plain->family == 4 ? frame_client4 : frame_client6;
		odd.source_port = plain->destination_port;
		odd.destination_port = plain->source_port;
		frame_build(&odd, &f);
		odd = (struct frame_spec){.family = plain->family,
			.protocol = plain->family == 4 ? 1 : 58,
			.icmp_type = plain->family == 4 ? 3 : 1,
			.icmp_code = plain->family == 4 ? 3 : 4,
			.body = f.bytes + f.l3,
			.payload = (uint16_t)(f.n - f.l3)};
		frame_build(&odd, &error);
		assert_int_equal(part_of(rss, &error, hashes[i]), part);
	}
}

TEST_GROUP(lab_eal);

TEST(all_packets_of_a_flow_belong_to_one_part) {
	struct rss_lab rss = make();
	struct frame f;

	for (uint16_t n = 0; n < 200; n++) {
		struct frame_spec plain = packet(n, n % 2 == 0 ? 4 : 6, n % 4 < 2 ? 6 : 17, ACK);
		uint32_t hash = hash_of(&plain);

		frame_build(&plain, &f);
		assert_int_equal(part_of(&rss, &f, hash), hash % WEIR_FLOW_PARTS);
		assert_int_equal(part_of(&rss, &f, NO_HASH), hash % WEIR_FLOW_PARTS);
		check_odd_packets(&rss, &plain);
		if (plain.family == 4) { // the first fragment of a datagram
			frame_put16(f.bytes + f.l3 + 6, 0x2000);
			frame_fix_ipv4(&f);
			assert_int_equal(part_of(&rss, &f, NO_HASH), hash % WEIR_FLOW_PARTS);
			assert_int_equal(part_of(&rss, &f, 99), hash % WEIR_FLOW_PARTS);
		}
	}
	unmake(&rss);
}

// Packets of any kind find their flow. Each flow is in its primary or secondary bucket of the part
// that its packets belong to.
TEST(flows_are_found_in_the_part_given_by_packets) {
	struct rss_lab rss = make();
	uint16_t backend[3000];

	for (unsigned int round = 0; round < 4; round++) {
		for (uint16_t n = 0; n < 3000; n++) {
			struct frame_spec spec = packet(
				n, n % 3 == 0 ? 6 : 4, n % 5 == 0 ? 17 : 6, round == 0 ? SYN : ACK);
			struct weir_verdict verdict;

			spec.tags = round == 2 && n % 7 == 0;
			verdict = process(
				&rss, &spec, (n + round) % 3 == 0 ? NO_HASH : hash_of(&spec));
			assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
			if (round == 0) {
				backend[n] = verdict.backend;
			}
			assert_int_equal(
				verdict.choice, round == 0 ? WEIR_CHOICE_NEW : WEIR_CHOICE_FLOW);
			assert_int_equal(verdict.backend, backend[n]);
		}
	}
	assert_int_equal(weir_flow_count(rss.lab->pipeline->flows), 3000);
	unmake(&rss);
}

// The RSS key of the device is not known. Flows are found even if their hashes fall into few parts,
// so that many flows are in their secondary bucket.
TEST(flows_are_found_with_any_hash_of_the_device) {
	struct rss_lab rss = make();
	uint16_t backend[800];

	for (unsigned int round = 0; round < 3; round++) {
		for (uint16_t n = 0; n < 800; n++) {
			struct frame_spec spec =
				packet(n, n % 4 == 0 ? 6 : 4, 6, round == 0 ? SYN : ACK);
			struct weir_verdict verdict =
				process(&rss, &spec, 0xabcdef00 + n % 80 * 1027u);

			if (round == 0) {
				backend[n] = verdict.backend;
			}
			assert_int_equal(
				verdict.choice, round == 0 ? WEIR_CHOICE_NEW : WEIR_CHOICE_FLOW);
			assert_int_equal(verdict.backend, backend[n]);
		}
	}
	unmake(&rss);
}

TEST(control_finds_a_flow) {
	struct rss_lab rss = make();

	for (uint16_t n = 0; n < 50; n++) {
		struct frame_spec spec = packet(n, 4, 6, SYN);
		struct weir_verdict verdict = process(&rss, &spec, hash_of(&spec));
		struct weir_message message = lab_question(n);

		weir_flow_query_respond(rss.lab->pipeline, &message, rss.lab->now_ns);
		assert_int_equal(message.flow.found, 1);
		assert_int_equal(message.flow.backend, verdict.backend);
	}
	unmake(&rss);
}

// Packets without a flow have no hash and stay at the worker of their receive queue, so that a
// flood of such packets loads all workers equally.
TEST(packets_without_a_flow_stay_with_their_queue) {
	const struct frame_spec specs[] = {{.family = 4, .protocol = 1, .icmp_type = 8},
		{.family = 6, .protocol = 58, .icmp_type = 128}, {.family = 4, .protocol = 50},
		{.family = 6, .protocol = 47, .payload = 40},
		// an ICMP error that quotes nothing
		{.family = 4, .protocol = 1, .icmp_type = 3, .payload = 4},
		{.family = 4, .protocol = 6, .tcp_flags = 0x03}}; // wrong TCP flags
	struct rss_lab rss = make();

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct frame f;

		frame_build(&specs[i], &f);
		for (uint32_t hash = 0x5a000000; hash < 0x5a000000 + WEIR_FLOW_PARTS; hash += 99) {
			assert_int_equal(part_of(&rss, &f, hash), hash % WEIR_FLOW_PARTS);
		}
		assert_int_equal(part_of(&rss, &f, NO_HASH), 0);
	}
	unmake(&rss);
}
