// SPDX-License-Identifier: BSD-3-Clause
//
// Tests agent messages: their encoding, the bounds of each field, and that only datagrams from an
// owner of the key are accepted. The layout is specified in docs/reference/agent-protocol.md.
#include <netinet/in.h>

#include "health_state.h"
#include "message_lab.h"

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))

// The two datagrams of the document's examples.
static const struct weir_agent_probe sample_probe = {
	.key_id = 1,
	.balancer = 0x1112131415161718,
	.sequence = 7,
	.challenge = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac,
		0xad, 0xae, 0xaf},
	.agent = 0x2122232425262728,
	.clock_ms = 60000,
	.interval_ms = 500,
	.acknowledged = 2,
	.wants = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(UTILIZATION),
	.recipient = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 11},
	.recipient_port = 4777,
};

static const struct weir_agent_answer sample_answer = {
	.key_id = 1,
	.agent = 0x2122232425262728,
	.balancer = 0x1112131415161718,
	.challenge = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac,
		0xad, 0xae, 0xaf},
	.clock_ms = 90000,
	.serial = 3,
	.given = WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(REQUESTS) |
		 WEIR_REPORT(ERRORS) | WEIR_REPORT(UTILIZATION) | WEIR_REPORT(ACTIVE) |
		 WEIR_REPORT(CPUS),
	.service_sum_us = 12000000,
	.service_count = 4000,
	.requests_milli_per_s = 120500,
	.errors_milli_per_s = 250,
	.utilization_ppm = 640000,
	.active = 17,
	.cpu_milli = 1500,
	.word = WEIR_HEALTH_WORD_LAME_DUCK,
	.unasked = 1,
	.why = "SIGTERM",
};

static enum weir_agent_refusal decode_probe(const uint8_t *bytes) {
	struct weir_agent_probe probe;

	return weir_agent_probe_decode(bytes, BYTES, &keys, &probe);
}

static enum weir_agent_refusal decode_answer(const uint8_t *bytes) {
	struct weir_agent_answer answer;

	return weir_agent_answer_decode(bytes, BYTES, &keys, &answer);
}

// --- decoding returns the sent values ---

static void expect_probe(const struct weir_agent_probe *probe) {
	struct weir_agent_probe got;
	uint8_t bytes[BYTES];

	memset(&got, 0x5a, sizeof(got));
	weir_agent_probe_encode(probe, &keys.key[0], bytes);
	assert_int_equal(weir_agent_probe_decode(bytes, BYTES, &keys, &got), NONE);
	assert_int_equal(got.key_id, 1);
#define X(type, field, meaning) assert_memory_equal(&got.field, &probe->field, sizeof(got.field));
	WEIR_AGENT_PROBE_FIELDS(X)
#undef X
}

static void expect_answer(const struct weir_agent_answer *answer) {
	struct weir_agent_answer got;
	uint8_t bytes[BYTES];

	memset(&got, 0x5a, sizeof(got));
	weir_agent_answer_encode(answer, &keys.key[0], bytes);
	assert_int_equal(weir_agent_answer_decode(bytes, BYTES, &keys, &got), NONE);
	assert_int_equal(got.key_id, 1);
#define X(type, field, meaning) assert_memory_equal(&got.field, &answer->field, sizeof(got.field));
	WEIR_AGENT_ANSWER_FIELDS(X)
#undef X
}

static int start_crypto(__attribute__((unused)) void **state) {
	return weir_agent_crypto_start();
}

TEST_GROUP(start_crypto);

// Fields in which all values are valid are tested with all bits set, with only the lowest bit set,
// and with only the highest bit set.
TEST(every_field_survives_its_largest_values) {
	expect_probe(&sample_probe);
	expect_answer(&sample_answer);
#define PROBE(field, ...) \
	do { \
		struct weir_agent_probe probe = sample_probe; \
		static const uint64_t values[] = {__VA_ARGS__}; \
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) { \
			memcpy(&probe.field, &values[i], SMALLER(sizeof(probe.field), 8)); \
			expect_probe(&probe); \
		} \
	} while (0)
#define ANSWER(field, ...) \
	do { \
		struct weir_agent_answer answer = sample_answer; \
		static const uint64_t values[] = {__VA_ARGS__}; \
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) { \
			memcpy(&answer.field, &values[i], SMALLER(sizeof(answer.field), 8)); \
			expect_answer(&answer); \
		} \
	} while (0)
#define ANY 0, 1, 0x80000000, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX
#define NOT_0 1, 0x80000001, UINT32_MAX, (UINT64_C(1) << 63) + 1, UINT64_MAX
	PROBE(balancer, NOT_0);
	PROBE(sequence, ANY);
	PROBE(challenge, ANY);
	PROBE(agent, ANY);
	PROBE(clock_ms, ANY);
	PROBE(interval_ms, 1, WEIR_AGENT_INTERVAL_MOST_MS);
	PROBE(acknowledged, ANY);
	PROBE(wants, ANY);
	PROBE(recipient, ANY);
	PROBE(recipient_port, ANY);
	ANSWER(agent, NOT_0);
	ANSWER(balancer, NOT_0);
	ANSWER(challenge, ANY);
	ANSWER(clock_ms, ANY);
	ANSWER(serial, NOT_0);
	ANSWER(given, 0, 1, WEIR_REPORT(MAX_ACTIVE), WEIR_AGENT_GIVEN);
	ANSWER(service_sum_us, ANY);
	ANSWER(service_count, ANY);
	ANSWER(busy_sum_us, ANY);
	ANSWER(busy_count, ANY);
	ANSWER(requests_milli_per_s, ANY);
	ANSWER(errors_milli_per_s, ANY);
	ANSWER(service_median_us, ANY);
	ANSWER(utilization_ppm, ANY);
	ANSWER(active, ANY);
	ANSWER(accept_queue, ANY);
	ANSWER(accept_queue_limit, ANY);
	ANSWER(cpu_milli, ANY);
	ANSWER(cpu_mhz, ANY);
	ANSWER(max_active_flows, ANY);
	ANSWER(word, 0, 1, 2, 3, 4);
	ANSWER(unasked, 0, 1);
#undef PROBE
#undef ANSWER
}

// An answer contains as many states of ports as it has room for, at the offsets that the document
// specifies.
TEST(words_of_ports_are_at_their_places) {
	struct weir_agent_answer answer = sample_answer;
	uint8_t bytes[BYTES];

	answer.given |= WEIR_AGENT_PORT_WORDS;
	expect_answer(&answer);
	answer.port_words[0] = (struct weir_port_word){
		0x1234, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN, WEIR_PORT_REASON_NO_LISTENER};
	answer.port_words[1] = (struct weir_port_word){0x1234, IPPROTO_UDP, 1, 15};
	answer.port_word_count = 2;
	expect_answer(&answer);
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_memory_equal(bytes + 170, "\2\x12\x34\x06\x14\x12\x34\x11\xf1\0", 10);
	for (uint8_t i = 0; i < WEIR_PORT_WORDS_MOST; i++) {
		answer.port_words[i] = (struct weir_port_word){
			(uint16_t)(UINT16_MAX - i), IPPROTO_TCP, WEIR_HEALTH_WORD_READY, 0};
	}
	answer.port_word_count = WEIR_PORT_WORDS_MOST;
	expect_answer(&answer);
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_memory_equal(bytes + 215, "\xff\xf4\x06\x02", 4);
	answer.port_word_count = 1; // the answer contains only one state now
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_memory_equal(bytes + 170, "\1\xff\xff\x06\x02\0\0\0", 8);
	assert_int_equal(decode_answer(bytes), NONE);
}

// Speed and CPU model are in the last bytes of the fields. If their bit in `given` is not set,
// these bytes are 0, as in earlier versions.
TEST(speed_and_model_need_their_bit) {
	struct weir_agent_answer answer = sample_answer;
	uint8_t bytes[BYTES];

	answer.given |= WEIR_REPORT(GCU);
	answer.gcu_milli = 0x1234;
	answer.cpu_model = 0x56789a;
	expect_answer(&answer);
	answer.gcu_milli = UINT16_MAX;
	answer.cpu_model = 0xffffff;
	expect_answer(&answer);
	answer.gcu_milli = 0x1234;
	answer.cpu_model = 0x56789a;
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_memory_equal(bytes + 219, "\x12\x34\x56\x78\x9a", 5);
	answer.given &= ~WEIR_REPORT(GCU);
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_REST);
	answer.gcu_milli = 0;
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_REST);
	answer.cpu_model = 0;
	expect_answer(&answer);
}

TEST(why_is_terminated_and_leaks_nothing) {
	struct weir_agent_answer answer = sample_answer, got;
	uint8_t bytes[BYTES];

	memset(answer.why, 'x', sizeof(answer.why)); // a text without a final NUL
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_int_equal(weir_agent_answer_decode(bytes, BYTES, &keys, &got), NONE);
	assert_int_equal(strlen(got.why), WEIR_AGENT_WHY_BYTES - 1);
	memcpy(answer.why, "a\0secret", 8); // bytes left from an earlier text
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_int_equal(weir_agent_answer_decode(bytes, BYTES, &keys, &got), NONE);
	assert_string_equal(got.why, "a");
	assert_int_equal(got.why[2], 0);
}

TEST(recipients_are_addresses_of_both_families) {
	static const uint8_t ipv4[4] = {192, 0, 2, 11}, ipv6[16] = {0x20, 1, 0x0d, 0xb8, [15] = 1};
	uint8_t recipient[WEIR_AGENT_RECIPIENT_BYTES];

	weir_agent_recipient(4, ipv4, recipient);
	assert_memory_equal(recipient, sample_probe.recipient, sizeof(recipient));
	weir_agent_recipient(6, ipv6, recipient);
	assert_memory_equal(recipient, ipv6, sizeof(recipient));
}

// --- refused datagrams ---

TEST(numbers_out_of_range_are_refused) {
	uint8_t bytes[BYTES];

#define PROBE(field, value) \
	do { \
		struct weir_agent_probe probe = sample_probe; \
		probe.field = value; \
		weir_agent_probe_encode(&probe, &keys.key[0], bytes); \
		assert_int_equal(decode_probe(bytes), WEIR_AGENT_REFUSAL_VALUE); \
	} while (0)
#define ANSWER(field, value) \
	do { \
		struct weir_agent_answer answer = sample_answer; \
		answer.field = value; \
		weir_agent_answer_encode(&answer, &keys.key[0], bytes); \
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_VALUE); \
	} while (0)
	PROBE(balancer, 0);
	PROBE(interval_ms, 0);
	PROBE(interval_ms, WEIR_AGENT_INTERVAL_MOST_MS + 1);
	PROBE(interval_ms, UINT32_MAX);
	ANSWER(agent, 0);
	ANSWER(balancer, 0);
	ANSWER(serial, 0);
	for (uint32_t bit = 0; bit < 32; bit++) {
		if (((WEIR_AGENT_GIVEN | WEIR_AGENT_PORT_WORDS) >> bit & 1) == 0) {
			ANSWER(given, 1u << bit);
		}
	}
	ANSWER(word, WEIR_HEALTH_WORD_COUNT);
	ANSWER(word, 255);
	ANSWER(unasked, 2);
	ANSWER(unasked, 255);
	ANSWER(why[0], '\n');
	ANSWER(why[6], '\x1b');
	ANSWER(why[0], '\x7f');
	ANSWER(why[0], '\xc3');
#undef PROBE
#undef ANSWER
}

TEST(words_of_ports_out_of_range_are_refused) {
	static const struct {
		struct weir_port_word first, second;
	} bad[] = {
		{{0, IPPROTO_TCP, 4, 0}, {81, IPPROTO_TCP, 4, 0}},
		{{80, 0, 4, 0}, {81, IPPROTO_TCP, 4, 0}},
		{{80, IPPROTO_ICMP, 4, 0}, {81, IPPROTO_TCP, 4, 0}},
		{{80, IPPROTO_TCP, 4, 0}, {81, 255, 4, 0}},
		{{80, IPPROTO_TCP, 4, 0}, {81, IPPROTO_TCP, WEIR_HEALTH_WORD_NONE, 0}},
		{{80, IPPROTO_TCP, 4, 0}, {81, IPPROTO_TCP, WEIR_HEALTH_WORD_COUNT, 0}},
		{{80, IPPROTO_TCP, 15, 0}, {81, IPPROTO_TCP, 4, 0}},
		{{80, IPPROTO_TCP, 4, 0}, {80, IPPROTO_TCP, 4, 0}}, // a port that occurs twice
		{{80, IPPROTO_UDP, 2, 0}, {80, IPPROTO_UDP, 4, 1}},
		{{80, IPPROTO_TCP, 4, 0}, {0}},
	};
	struct weir_agent_answer answer = sample_answer;
	uint8_t bytes[BYTES];

	answer.given |= WEIR_AGENT_PORT_WORDS;
	answer.port_word_count = 2;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		answer.port_words[0] = bad[i].first;
		answer.port_words[1] = bad[i].second;
		weir_agent_answer_encode(&answer, &keys.key[0], bytes);
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_VALUE);
	}
	answer.port_words[0] = (struct weir_port_word){80, IPPROTO_TCP, 4, 0};
	answer.port_words[1] = (struct weir_port_word){80, IPPROTO_UDP, 4, 0};
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_int_equal(decode_answer(bytes), NONE);
	for (uint32_t count = WEIR_PORT_WORDS_MOST + 1; count < 256; count++) {
		bytes[170] = (uint8_t)count;
		authenticate_again(bytes);
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_VALUE);
	}
}

TEST(words_of_ports_without_their_bit_or_after_the_last_are_refused) {
	struct weir_agent_answer answer = sample_answer;
	uint8_t bytes[BYTES];

	answer.port_words[0] = (struct weir_port_word){80, IPPROTO_TCP, 4, 0};
	answer.port_word_count = 1;
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_REST);
	answer.given |= WEIR_AGENT_PORT_WORDS;
	weir_agent_answer_encode(&answer, &keys.key[0], bytes);
	assert_int_equal(decode_answer(bytes), NONE);
	for (size_t at = 175; at < WEIR_AGENT_MAC_START; at++) {
		weir_agent_answer_encode(&answer, &keys.key[0], bytes);
		assert_int_equal(bytes[at], 0);
		bytes[at] = 1;
		authenticate_again(bytes);
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_REST);
	}
}

TEST(text_without_end_or_with_two_is_refused) {
	const size_t at = 138;
	uint8_t bytes[BYTES];

	weir_agent_answer_encode(&sample_answer, &keys.key[0], bytes);
	assert_memory_equal(bytes + at, "SIGTERM", 8);
	bytes[at + 8] = 'x'; // a byte after the end of the text
	authenticate_again(bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_VALUE);
	memset(bytes + at, 'x', WEIR_AGENT_WHY_BYTES);
	authenticate_again(bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_VALUE);
	bytes[at + WEIR_AGENT_WHY_BYTES - 1] = 0;
	authenticate_again(bytes);
	assert_int_equal(decode_answer(bytes), NONE);
}

TEST(every_other_length_is_refused) {
	struct weir_agent_probe probe;
	struct weir_agent_answer answer;

	for (size_t length = 0; length <= 2 * BYTES; length++) {
		uint8_t *bytes =
			calloc(1, length > 0 ? length : 1); // so that ASan detects invalid reads
		uint8_t whole[BYTES];

		if (length == BYTES) {
			free(bytes);
			continue;
		}
		weir_agent_probe_encode(&sample_probe, &keys.key[0], whole);
		memcpy(bytes, whole, length < BYTES ? length : BYTES);
		assert_int_equal(weir_agent_probe_decode(bytes, length, &keys, &probe),
			WEIR_AGENT_REFUSAL_LENGTH);
		weir_agent_answer_encode(&sample_answer, &keys.key[0], whole);
		memcpy(bytes, whole, length < BYTES ? length : BYTES);
		assert_int_equal(weir_agent_answer_decode(bytes, length, &keys, &answer),
			WEIR_AGENT_REFUSAL_LENGTH);
		free(bytes);
	}
}

TEST(other_versions_and_kinds_are_refused) {
	for (uint32_t value = 0; value < 256; value++) {
		uint8_t bytes[BYTES];

		weir_agent_probe_encode(&sample_probe, &keys.key[0], bytes);
		bytes[4] = (uint8_t)value;
		authenticate_again(bytes);
		assert_int_equal(decode_probe(bytes),
			value == WEIR_AGENT_VERSION ? NONE : WEIR_AGENT_REFUSAL_VERSION);
		bytes[4] = WEIR_AGENT_VERSION;
		bytes[5] = (uint8_t)value;
		authenticate_again(bytes);
		assert_int_equal(decode_probe(bytes),
			value == WEIR_AGENT_PROBE ? NONE : WEIR_AGENT_REFUSAL_KIND);
		weir_agent_answer_encode(&sample_answer, &keys.key[0], bytes);
		bytes[5] = (uint8_t)value;
		authenticate_again(bytes);
		assert_int_equal(decode_answer(bytes),
			value == WEIR_AGENT_ANSWER ? NONE : WEIR_AGENT_REFUSAL_KIND);
	}
}

TEST(every_byte_of_the_rest_is_zero) {
	uint8_t bytes[BYTES];

	for (size_t at = 88; at < WEIR_AGENT_MAC_START; at++) {
		weir_agent_probe_encode(&sample_probe, &keys.key[0], bytes);
		assert_int_equal(bytes[at], 0);
		bytes[at] = 0x80;
		authenticate_again(bytes);
		assert_int_equal(decode_probe(bytes), WEIR_AGENT_REFUSAL_REST);
	}
	for (size_t at = 170; at < WEIR_AGENT_MAC_START; at++) {
		weir_agent_answer_encode(&sample_answer, &keys.key[0], bytes);
		assert_int_equal(bytes[at], 0);
		bytes[at] = 1;
		authenticate_again(bytes);
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_REST);
	}
}

TEST(only_known_keys_are_accepted) {
	struct weir_agent_key unknown = {.id = 2}, other = {.id = 1, .secret = {1}};
	static const struct weir_agent_keys none = {0};
	struct weir_agent_probe probe = {0};
	uint8_t bytes[BYTES];

	weir_agent_probe_encode(&sample_probe, &keys.key[1], bytes);
	assert_int_equal(weir_agent_probe_decode(bytes, BYTES, &keys, &probe), NONE);
	assert_int_equal(probe.key_id, 0x0203);
	weir_agent_probe_encode(&sample_probe, &unknown, bytes);
	assert_int_equal(decode_probe(bytes), WEIR_AGENT_REFUSAL_KEY);
	weir_agent_probe_encode(&sample_probe, &other, bytes);
	assert_int_equal(decode_probe(bytes), WEIR_AGENT_REFUSAL_MAC);
	weir_agent_answer_encode(&sample_answer, &unknown, bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_KEY);
	weir_agent_answer_encode(&sample_answer, &other, bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_MAC);
	// The id of an unused entry.
	unknown.id = 0;
	weir_agent_probe_encode(&sample_probe, &unknown, bytes);
	assert_int_equal(decode_probe(bytes), WEIR_AGENT_REFUSAL_KEY);
	assert_int_equal(
		weir_agent_probe_decode(bytes, BYTES, &none, &probe), WEIR_AGENT_REFUSAL_KEY);
}

static enum weir_agent_refusal of_flipped(size_t byte) {
	return byte < 4    ? WEIR_AGENT_REFUSAL_MAGIC
	       : byte == 4 ? WEIR_AGENT_REFUSAL_VERSION
	       : byte == 5 ? WEIR_AGENT_REFUSAL_KIND
	       : byte < 8  ? WEIR_AGENT_REFUSAL_KEY
			   : WEIR_AGENT_REFUSAL_MAC;
}

TEST(every_flipped_bit_is_refused) {
	struct weir_agent_answer answer, before_answer;
	struct weir_agent_probe probe, before_probe;
	uint8_t request[BYTES], answered[BYTES];

	memset(&probe, 0x5a, sizeof(probe));
	memset(&answer, 0x5a, sizeof(answer));
	before_probe = probe;
	before_answer = answer;
	weir_agent_probe_encode(&sample_probe, &keys.key[0], request);
	weir_agent_answer_encode(&sample_answer, &keys.key[0], answered);
	for (size_t bit = 0; bit < (size_t)8 * BYTES; bit++) {
		request[bit / 8] ^= (uint8_t)(1u << bit % 8);
		answered[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(weir_agent_probe_decode(request, BYTES, &keys, &probe),
			of_flipped(bit / 8));
		assert_int_equal(weir_agent_answer_decode(answered, BYTES, &keys, &answer),
			of_flipped(bit / 8));
		request[bit / 8] ^= (uint8_t)(1u << bit % 8);
		answered[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_memory_equal(&probe, &before_probe, sizeof(probe));
	assert_memory_equal(&answer, &before_answer, sizeof(answer));
	assert_int_equal(decode_probe(request), NONE);
	assert_int_equal(decode_answer(answered), NONE);
}

// --- random numbers ---

TEST(random_numbers_differ) {
	uint8_t first[WEIR_AGENT_CHALLENGE_BYTES] = {0}, second[WEIR_AGENT_CHALLENGE_BYTES] = {0};

	weir_agent_random_challenge(first);
	weir_agent_random_challenge(second);
	assert_memory_not_equal(first, second, sizeof(first));
	assert_int_not_equal(weir_agent_random_number(), weir_agent_random_number());
}

// --- the document ---

TEST(document_has_every_field_and_both_examples) {
	size_t at = WEIR_AGENT_FIELDS_START;
	uint8_t bytes[BYTES];
	char line[128];

#define X(type, field, meaning) \
	document_field(&at, sizeof(((struct weir_agent_probe *)0)->field), #field, meaning);
	WEIR_AGENT_PROBE_FIELDS(X)
#undef X
	document_rest(at);
	at = WEIR_AGENT_FIELDS_START;
#define X(type, field, meaning) \
	document_field(&at, \
		strcmp(#type, "U24") == 0 ? 3 : sizeof(((struct weir_agent_answer *)0)->field), \
		#field, meaning);
	WEIR_AGENT_ANSWER_FIELDS(X)
#undef X
	document_rest(at);
#define X(name, text, meaning) \
	if (WEIR_AGENT_REFUSAL_##name != NONE) { \
		assert_documented("\n| `" text "` | " meaning " |\n"); \
	}
	WEIR_AGENT_REFUSALS(X)
#undef X
	for (uint32_t field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		if ((WEIR_AGENT_GIVEN >> field & 1) != 0) {
			snprintf(line, sizeof(line), "\n| %u | `%s` |", field,
				weir_report_field_name(field));
			assert_documented(line);
		}
	}
	snprintf(line, sizeof(line), "\n| %u | `port_words` |", WEIR_AGENT_PORT_WORDS_BIT);
	assert_documented(line);
	assert_documented("reason: 0 = none, 1 = no listening socket, 2 = held down:");
	weir_agent_probe_encode(&sample_probe, &keys.key[0], bytes);
	document_bytes(bytes);
	weir_agent_answer_encode(&sample_answer, &keys.key[0], bytes);
	document_bytes(bytes);
}
