// SPDX-License-Identifier: BSD-3-Clause
//
// Tests datagrams of TCP statistics: their encoding, the bounds of each field, and that they are
// not accepted as another kind of datagram. The layout is specified in
// docs/reference/agent-protocol.md.
#include "message_lab.h"

// The datagram of the document's example.
static const struct weir_agent_tcp sample = {
	.key_id = 1,
	.agent = 0x2122232425262728,
	.balancer = 0x1112131415161718,
	.challenge = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac,
		0xad, 0xae, 0xaf},
	.clock_ms = 90000,
	.age_ms = 420,
	.ipv4 =
		{
			.segments = 1000000,
			.retransmitted = 2500,
			.sent_bytes = 1400000000,
			.delivery_rate = 12500000,
			.connections = 800,
			.rtt_median_us = 21000,
			.rtt_p99_us = 180000,
			.rated = 12,
		},
	.ipv6 = {.segments = 10, .connections = 3, .rtt_median_us = 9000, .rtt_p99_us = 9500},
};

static int start_crypto(__attribute__((unused)) void **state) {
	return weir_agent_crypto_start();
}

TEST_GROUP(start_crypto);

static enum weir_agent_refusal decode(const uint8_t *bytes, size_t count) {
	struct weir_agent_tcp tcp;

	return weir_agent_tcp_decode(bytes, count, &keys, &tcp);
}

static enum weir_agent_refusal decode_encoded(const struct weir_agent_tcp *tcp) {
	uint8_t bytes[BYTES];

	weir_agent_tcp_encode(tcp, &keys.key[0], bytes);
	return decode(bytes, BYTES);
}

static void expect(const struct weir_agent_tcp *tcp) {
	struct weir_agent_tcp got;
	uint8_t bytes[BYTES];

	memset(&got, 0x5a, sizeof(got));
	weir_agent_tcp_encode(tcp, &keys.key[0], bytes);
	assert_int_equal(weir_agent_message_kind(bytes, BYTES), WEIR_AGENT_TCP);
	assert_int_equal(weir_agent_tcp_decode(bytes, BYTES, &keys, &got), NONE);
	assert_int_equal(got.key_id, 1);
#define X(type, field, meaning) assert_memory_equal(&got.field, &tcp->field, sizeof(got.field));
	WEIR_AGENT_TCP_FIELDS(X)
#undef X
}

TEST(tcp_fields_survive_their_largest_values) {
	struct weir_agent_tcp tcp = sample;

	expect(&sample);
	tcp.partial = 1;
	tcp.age_ms = UINT32_MAX;
	tcp.clock_ms = UINT64_MAX;
	expect(&tcp);
#define MOST_U32 UINT32_MAX
#define MOST_U64 INT64_MAX
#define X(type, field, meaning) \
	tcp.ipv4.field = MOST_##type; \
	expect(&tcp); \
	tcp.ipv6.field = MOST_##type - 1; \
	expect(&tcp);
	WEIR_AGENT_TCP_FAMILY_FIELDS(X)
#undef X
}

TEST(tcp_values_out_of_range_are_refused) {
#define REFUSED(field, value) \
	do { \
		struct weir_agent_tcp tcp = sample; \
\
		tcp.field = (value); \
		assert_int_equal(decode_encoded(&tcp), WEIR_AGENT_REFUSAL_VALUE); \
	} while (0)
	REFUSED(agent, 0);
	REFUSED(balancer, 0);
	REFUSED(partial, 2);
	REFUSED(partial, 255);
	REFUSED(ipv4.segments, UINT64_C(1) << 63);
	REFUSED(ipv4.retransmitted, UINT64_MAX);
	REFUSED(ipv4.sent_bytes, UINT64_C(1) << 63);
	REFUSED(ipv4.delivery_rate, UINT64_C(1) << 63);
	REFUSED(ipv6.segments, UINT64_C(1) << 63);
	REFUSED(ipv6.retransmitted, UINT64_C(1) << 63);
	REFUSED(ipv6.sent_bytes, UINT64_MAX);
	REFUSED(ipv6.delivery_rate, UINT64_C(1) << 63);
}

TEST(tcp_rest_is_zero) {
	uint8_t bytes[BYTES];

	for (size_t at = 149; at < WEIR_AGENT_MAC_START; at++) {
		weir_agent_tcp_encode(&sample, &keys.key[0], bytes);
		assert_int_equal(bytes[at], 0);
		bytes[at] = 1;
		authenticate_again(bytes);
		assert_int_equal(decode(bytes, BYTES), WEIR_AGENT_REFUSAL_REST);
	}
}

// The datagram is truncated to each length, in memory of exactly that length, so that ASan detects
// a read beyond its end.
TEST(tcp_of_other_lengths_and_kinds_are_refused) {
	uint8_t whole[BYTES];

	weir_agent_tcp_encode(&sample, &keys.key[0], whole);
	for (size_t length = 0; length < BYTES; length++) {
		uint8_t *bytes = malloc(length > 0 ? length : 1);

		memcpy(bytes, whole, length);
		assert_int_equal(decode(bytes, length), WEIR_AGENT_REFUSAL_LENGTH);
		free(bytes);
	}
	for (uint32_t kind = 0; kind < 256; kind++) {
		struct weir_agent_answer answer;
		struct weir_agent_probe probe;

		weir_agent_tcp_encode(&sample, &keys.key[0], whole);
		assert_int_equal(weir_agent_answer_decode(whole, BYTES, &keys, &answer),
			WEIR_AGENT_REFUSAL_KIND);
		assert_int_equal(weir_agent_probe_decode(whole, BYTES, &keys, &probe),
			WEIR_AGENT_REFUSAL_KIND);
		whole[5] = (uint8_t)kind;
		authenticate_again(whole);
		assert_int_equal(decode(whole, BYTES),
			kind == WEIR_AGENT_TCP ? NONE : WEIR_AGENT_REFUSAL_KIND);
	}
}

TEST(tcp_flipped_bits_are_refused) {
	struct weir_agent_tcp got, before;
	uint8_t bytes[BYTES];

	memset(&got, 0x5a, sizeof(got));
	before = got;
	weir_agent_tcp_encode(&sample, &keys.key[0], bytes);
	for (size_t bit = 0; bit < (size_t)8 * BYTES; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(weir_agent_tcp_decode(bytes, BYTES, &keys, &got), NONE);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_memory_equal(&got, &before, sizeof(got));
	assert_int_equal(decode(bytes, BYTES), NONE);
}

TEST(document_has_the_tcp_figures_and_their_example) {
	size_t at = WEIR_AGENT_FIELDS_START;
	uint8_t bytes[BYTES];
	char line[64];

#define X(type, field, meaning) \
	document_field(&at, sizeof(((struct weir_agent_tcp *)0)->field), #field, meaning);
	WEIR_AGENT_TCP_FIELDS(X)
#undef X
	document_rest(at);
	at = 0;
#define X(type, field, meaning) \
	document_field(&at, sizeof(((struct weir_agent_tcp_family *)0)->field), #field, meaning);
	WEIR_AGENT_TCP_FAMILY_FIELDS(X)
#undef X
	snprintf(line, sizeof(line), "\n| %u | `tcp` |", WEIR_AGENT_TCP_FIGURES_BIT);
	assert_documented(line);
	weir_agent_tcp_encode(&sample, &keys.key[0], bytes);
	document_bytes(bytes);
}
