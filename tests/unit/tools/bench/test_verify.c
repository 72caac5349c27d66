// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "bench_lab.h"
#include "test.h"
#include "verify.h"

#define HEADROOM 128u

// A packet, and the result of the pipeline for this packet.
struct outcome {
	struct bench_lab lab;
	uint8_t frame[WEIR_BENCH_FRAME_MAX];
	uint8_t buffer[HEADROOM + WEIR_BENCH_FRAME_MAX] __attribute__((aligned(64)));
	struct rte_mbuf m;
	struct weir_verdict verdict;
	struct weir_bench_expectation expected;
};

static void open_outcome(struct outcome *o, const char *line) {
	struct weir_bench_packets *packets = &o->lab.engine.packets;
	struct rte_mbuf *m = &o->m;
	struct weir_bench_tuple tuple;
	struct weir_bench_item item;

	memset(o, 0, sizeof(*o));
	bench_lab_open(&o->lab, line);
	item = weir_bench_traffic_steady(&o->lab.engine.traffic, 7, false);
	weir_bench_tuple(&o->lab.engine.tuples, item.number, &tuple);
	weir_bench_packet_write(packets, &tuple, item.protocol, item.flags, 1, o->frame);
	memcpy(o->buffer + HEADROOM, o->frame, packets->frame_bytes);
	m->buf_addr = o->buffer;
	m->buf_len = sizeof(o->buffer);
	m->data_off = HEADROOM;
	m->data_len = (uint16_t)packets->frame_bytes;
	m->pkt_len = packets->frame_bytes;
	m->nb_segs = 1;
	m->refcnt = 1;
	weir_pipeline_process(
		o->lab.balancer.pipeline, &m, 1, 0, o->lab.engine.now_ns, &o->verdict);
	o->expected = (struct weir_bench_expectation){.frame = o->frame,
		.frame_bytes = packets->frame_bytes,
		.l3_offset = packets->l3_offset,
		.ip_bytes = packets->frame_bytes - packets->l3_offset,
		.family = packets->family,
		.tos = WEIR_BENCH_TOS,
		.service = tuple.service,
		.backend = o->lab.engine.backends[7],
		.choices = 1u << WEIR_CHOICE_FLOW};
}

static void close_outcome(struct outcome *o) {
	bench_lab_close(&o->lab);
}

static int verify(const struct outcome *o, char why[256]) {
	why[0] = '\0';
	return weir_bench_verify(&o->lab.options, &o->expected, &o->verdict, &o->m, why, 256);
}

TEST_GROUP(bench_lab_eal);

TEST(correct_packets_pass) {
	static const char *const lines[] = {
		"weir-bench --flows 50 --table-flows 1000 --no-huge",
		"weir-bench --flows 50 --table-flows 1000 --no-huge --vlan --packet-bytes 500",
		"weir-bench --flows 50 --table-flows 1000 --no-huge --family 6",
		"weir-bench --flows 50 --table-flows 1000 --no-huge --family 6 --protocol udp",
		"weir-bench --flows 50 --table-flows 1000 --no-huge --services 5 --policy random",
		"weir-bench --flows 50 --table-flows 1000 --no-huge --forwarding ipip",
		"weir-bench --flows 50 --table-flows 1000 --no-huge --forwarding l2 --vlan",
		"weir-bench --flows 50 --table-flows 1000 --no-huge --forwarding gue --vlan",
		"weir-bench --flows 50 --table-flows 1000 --no-huge --forwarding gre --family 6",
	};
	static struct outcome o;
	char why[256];

	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		open_outcome(&o, lines[i]);
		if (verify(&o, why) < 0) {
			fail_msg("%s: %s", lines[i], why);
		}
		close_outcome(&o);
	}
}

// Returns whether a bit of a sent packet may have any value: in the flow label, and, in the source
// port of GUE, all except the highest two.
static bool is_free(const struct weir_bench_options *options, uint32_t byte, unsigned int bit) {
	const uint32_t ip = 14, label = ip + 1;
	const uint32_t port = ip + (options->family == 6 ? 40 : 20);
	const bool tunnel = options->forwarding != WEIR_FORWARDING_L2;

	if (options->forwarding == WEIR_FORWARDING_GUE && (byte == port || byte == port + 1)) {
		return byte != port || bit < 6;
	}
	return tunnel && options->family == 6 && byte >= label && byte < ip + 4 &&
	       !(byte == label && bit >= 4);
}

// Checks that a wrong bit is detected anywhere in a sent packet: in the Ethernet header, the outer
// IP header and the inner packet.
static void check_every_byte(const char *line) {
	static struct outcome o;
	char why[256];
	uint8_t *at;

	open_outcome(&o, line);
	at = rte_pktmbuf_mtod(&o.m, uint8_t *);
	assert_int_equal(verify(&o, why), 0);
	for (uint32_t i = 0; i < o.m.pkt_len; i++) {
		uint8_t right = at[i];

		for (unsigned int bit = 0; bit < 8; bit++) {
			if (is_free(&o.lab.options, i, bit)) {
				continue;
			}
			at[i] = (uint8_t)(right ^ 1u << bit);
			if (verify(&o, why) != -EBADMSG) {
				fail_msg("a wrong bit %u of byte %u is not detected", bit, i);
			}
			assert_true(why[0] != '\0');
		}
		at[i] = right;
	}
	assert_int_equal(verify(&o, why), 0);
	close_outcome(&o);
}

TEST(every_wrong_bit_is_detected_ipv4) {
	check_every_byte("weir-bench --flows 50 --table-flows 1000 --no-huge");
}

TEST(every_wrong_bit_is_detected_ipv6) {
	check_every_byte("weir-bench --flows 50 --table-flows 1000 --no-huge --family 6");
}

TEST(every_wrong_bit_is_detected_in_each_mode){
#define X(name, member, key, text) \
	check_every_byte("weir-bench --flows 50 --table-flows 1000 --no-huge --forwarding " key); \
	check_every_byte("weir-bench --flows 50 --table-flows 1000 --no-huge --family 6 " \
			 "--forwarding " key);
	WEIR_FORWARDING_MODES(X)
#undef X
}

TEST(wrong_verdicts_are_detected) {
	static struct outcome o;
	struct weir_verdict right;
	char why[256];

	open_outcome(&o, "weir-bench --flows 50 --table-flows 1000 --no-huge --services 4");
	right = o.verdict;
	o.verdict.action = WEIR_ACTION_DROP;
	o.verdict.reason = WEIR_DROP_NO_BACKEND;
	assert_int_equal(verify(&o, why), -EBADMSG);
	assert_non_null(strstr(why, weir_drop_reason_name(WEIR_DROP_NO_BACKEND)));
	o.verdict = right;
	o.verdict.action = WEIR_ACTION_KERNEL;
	o.verdict.reason = WEIR_REASON_NONE;
	assert_int_equal(verify(&o, why), -EBADMSG);
	o.verdict = right;
	o.verdict.port = 1;
	assert_int_equal(verify(&o, why), -EBADMSG);
	o.verdict = right;
	o.verdict.service ^= 1;
	assert_int_equal(verify(&o, why), -EBADMSG);
	o.verdict = right;
	o.verdict.choice = WEIR_CHOICE_NEW; // wrong, because the flow already existed
	assert_int_equal(verify(&o, why), -EBADMSG);
	o.verdict = right;
	o.verdict.backend = (uint16_t)(right.backend ^ 1);
	assert_int_equal(verify(&o, why), -EBADMSG);
	// Any backend of the service is allowed, but the frame was built for another backend.
	o.expected.backend = WEIR_BACKEND_NONE;
	o.expected.choices = 0xff;
	assert_int_equal(verify(&o, why), -EBADMSG);
	o.verdict.backend = 99; // a backend of another service
	o.verdict.service = right.service == 3 ? 0 : right.service;
	o.expected.service = o.verdict.service;
	assert_int_equal(verify(&o, why), -EBADMSG);
	assert_non_null(strstr(why, "does not belong to service"));
	close_outcome(&o);
}

TEST(wrong_lengths_are_detected) {
	static struct outcome o;
	char why[256];

	open_outcome(&o, "weir-bench --flows 50 --table-flows 1000 --no-huge");
	o.m.pkt_len++;
	o.m.data_len++;
	assert_int_equal(verify(&o, why), -EBADMSG);
	o.m.pkt_len -= 2;
	o.m.data_len = (uint16_t)(o.m.data_len - 2);
	assert_int_equal(verify(&o, why), -EBADMSG);
	o.m.pkt_len++;
	assert_int_equal(verify(&o, why), -EBADMSG); // data_len differs
	o.m.data_len++;
	assert_int_equal(verify(&o, why), 0);
	o.m.data_off++;
	assert_int_equal(verify(&o, why), -EBADMSG);
	close_outcome(&o);
}
