// SPDX-License-Identifier: BSD-3-Clause
//
// Tests shed orders and answers: their encoding, the bounds of each field, and that they are not
// accepted as another kind of datagram. The layout is specified in
// docs/reference/agent-protocol.md.
#include "message_lab.h"

// The two datagrams of the document's examples.
static const struct weir_agent_shed sample_shed = {
	.key_id = 1,
	.balancer = 0x1112131415161718,
	.id = 3,
	.agent = 0x2122232425262728,
	.deadline_ms = 92300,
	.recipient = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 11},
	.recipient_port = 4777,
	.count = 50,
	.rate_milli_per_s = 50000,
	.keep = 334,
	.idle_ms = 5000,
	.service = "web",
	.bind_count = 2,
	.binds = {{.vip = {[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 51, [14] = 100, [15] = 10},
			  .port_first = 80,
			  .port_last = 80},
		{.vip = {0x20, 1, 0x0d, 0xb8, [15] = 10}, .port_first = 8000, .port_last = 8100}},
};

static const struct weir_agent_shed_answer sample_answer = {
	.key_id = 1,
	.agent = 0x2122232425262728,
	.balancer = 0x1112131415161718,
	.id = 3,
	.clock_ms = 91201,
	.connections = 471,
	.candidates = 120,
	.leaving = 0,
	.ended = 29,
	.method = WEIR_AGENT_SHED_IDLE,
	.result = WEIR_AGENT_SHED_ACTIVE,
};

static enum weir_agent_refusal decode_shed(const uint8_t *bytes) {
	struct weir_agent_shed shed;

	return weir_agent_shed_decode(bytes, BYTES, &keys, &shed);
}

static enum weir_agent_refusal decode_answer(const uint8_t *bytes) {
	struct weir_agent_shed_answer answer;

	return weir_agent_shed_answer_decode(bytes, BYTES, &keys, &answer);
}

static void expect_shed(const struct weir_agent_shed *shed) {
	struct weir_agent_shed got;
	uint8_t bytes[BYTES];

	memset(&got, 0x5a, sizeof(got));
	weir_agent_shed_encode(shed, &keys.key[0], bytes);
	assert_int_equal(weir_agent_shed_decode(bytes, BYTES, &keys, &got), NONE);
	assert_int_equal(got.key_id, 1);
#define X(type, field, meaning) assert_memory_equal(&got.field, &shed->field, sizeof(got.field));
	WEIR_AGENT_SHED_FIELDS(X)
#undef X
}

static void expect_answer(const struct weir_agent_shed_answer *answer) {
	struct weir_agent_shed_answer got;
	uint8_t bytes[BYTES];

	memset(&got, 0x5a, sizeof(got));
	weir_agent_shed_answer_encode(answer, &keys.key[0], bytes);
	assert_int_equal(weir_agent_shed_answer_decode(bytes, BYTES, &keys, &got), NONE);
	assert_int_equal(got.key_id, 1);
#define X(type, field, meaning) assert_memory_equal(&got.field, &answer->field, sizeof(got.field));
	WEIR_AGENT_SHED_ANSWER_FIELDS(X)
#undef X
}

static int start_crypto(__attribute__((unused)) void **state) {
	return weir_agent_crypto_start();
}

TEST_GROUP(start_crypto);

TEST(every_field_survives_its_bounds) {
	static const uint64_t numbers[] = {
		1, 0x80000001, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct weir_agent_shed shed = sample_shed;
		struct weir_agent_shed_answer answer = sample_answer;

		shed.balancer = shed.agent = answer.balancer = answer.agent = numbers[i];
		shed.id = answer.id = ~numbers[i] | 1;
		shed.deadline_ms = answer.clock_ms = ~numbers[i];
		shed.keep = answer.connections = answer.candidates = (uint32_t)numbers[i];
		shed.idle_ms = (uint32_t)numbers[i] | 1024;
		answer.leaving = (uint32_t)~numbers[i];
		expect_shed(&shed);
		expect_answer(&answer);
	}
	for (uint8_t result = 1; result < WEIR_AGENT_SHED_RESULT_COUNT; result++) {
		struct weir_agent_shed_answer answer = sample_answer;

		answer.result = result;
		answer.method = result % WEIR_AGENT_SHED_METHOD_COUNT;
		answer.ended = result == 1 ? WEIR_AGENT_SHED_COUNT_MOST : result;
		expect_answer(&answer);
	}
}

TEST(bounds_of_an_order_survive) {
	struct weir_agent_shed shed = sample_shed;

	shed.count = 0;
	shed.rate_milli_per_s = 1;
	shed.idle_ms = WEIR_AGENT_SHED_IDLE_LEAST_MS;
	shed.service[0] = '\0';
	memset(shed.service, 0, sizeof(shed.service));
	shed.bind_count = 1;
	memset(&shed.binds[1], 0, sizeof(shed.binds[1]));
	expect_shed(&shed);
	shed.count = WEIR_AGENT_SHED_COUNT_MOST;
	shed.rate_milli_per_s = WEIR_AGENT_SHED_RATE_MILLI_MOST;
	memset(shed.service, 'a', sizeof(shed.service) - 1);
	shed.bind_count = WEIR_AGENT_SHED_BINDS;
	for (uint16_t i = 0; i < WEIR_AGENT_SHED_BINDS; i++) {
		shed.binds[i] = sample_shed.binds[1];
		shed.binds[i].port_first = i;
		shed.binds[i].port_last = UINT16_MAX;
	}
	expect_shed(&shed);
}

TEST(values_out_of_range_are_refused) {
	uint8_t bytes[BYTES];

#define SHED(field, value) \
	do { \
		struct weir_agent_shed shed = sample_shed; \
		shed.field = value; \
		weir_agent_shed_encode(&shed, &keys.key[0], bytes); \
		assert_int_equal(decode_shed(bytes), WEIR_AGENT_REFUSAL_VALUE); \
	} while (0)
#define ANSWER(field, value) \
	do { \
		struct weir_agent_shed_answer answer = sample_answer; \
		answer.field = value; \
		weir_agent_shed_answer_encode(&answer, &keys.key[0], bytes); \
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_VALUE); \
	} while (0)
	SHED(balancer, 0);
	SHED(id, 0);
	SHED(agent, 0);
	SHED(count, WEIR_AGENT_SHED_COUNT_MOST + 1);
	SHED(rate_milli_per_s, 0);
	SHED(rate_milli_per_s, WEIR_AGENT_SHED_RATE_MILLI_MOST + 1);
	SHED(idle_ms, WEIR_AGENT_SHED_IDLE_LEAST_MS - 1);
	SHED(service[1], '\n');
	SHED(service[1], '\x80');
	SHED(bind_count, 0);
	SHED(bind_count, WEIR_AGENT_SHED_BINDS + 1);
	SHED(bind_count, UINT8_MAX);
	SHED(binds[1].port_first, 8101);
	ANSWER(balancer, 0);
	ANSWER(id, 0);
	ANSWER(agent, 0);
	ANSWER(ended, WEIR_AGENT_SHED_COUNT_MOST + 1);
	ANSWER(method, WEIR_AGENT_SHED_METHOD_COUNT);
	ANSWER(result, WEIR_AGENT_SHED_NO_RESULT);
	ANSWER(result, WEIR_AGENT_SHED_RESULT_COUNT);
#undef SHED
#undef ANSWER
}

TEST(unused_binds_are_zero) {
	uint8_t bytes[BYTES];

	for (size_t at = 109 + 2 * 20; at < 209; at++) {
		weir_agent_shed_encode(&sample_shed, &keys.key[0], bytes);
		assert_int_equal(bytes[at], 0);
		bytes[at] = 1;
		authenticate_again(bytes);
		assert_int_equal(decode_shed(bytes), WEIR_AGENT_REFUSAL_VALUE);
	}
}

TEST(every_byte_of_the_rest_is_zero) {
	uint8_t bytes[BYTES];

	for (size_t at = 209; at < WEIR_AGENT_MAC_START; at++) {
		weir_agent_shed_encode(&sample_shed, &keys.key[0], bytes);
		bytes[at] = 0x80;
		authenticate_again(bytes);
		assert_int_equal(decode_shed(bytes), WEIR_AGENT_REFUSAL_REST);
	}
	for (size_t at = 58; at < WEIR_AGENT_MAC_START; at++) {
		weir_agent_shed_answer_encode(&sample_answer, &keys.key[0], bytes);
		bytes[at] = 1;
		authenticate_again(bytes);
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_REST);
	}
}

TEST(every_other_length_is_refused) {
	uint8_t ordered[BYTES], answered[BYTES];
	struct weir_agent_shed shed;
	struct weir_agent_shed_answer answer;

	weir_agent_shed_encode(&sample_shed, &keys.key[0], ordered);
	weir_agent_shed_answer_encode(&sample_answer, &keys.key[0], answered);
	for (size_t length = 0; length < BYTES; length++) {
		uint8_t *exact = malloc(length + 1); // so that ASan detects invalid reads

		assert_non_null(exact);
		memcpy(exact + 1, ordered, length);
		assert_int_equal(weir_agent_shed_decode(exact + 1, length, &keys, &shed),
			WEIR_AGENT_REFUSAL_LENGTH);
		memcpy(exact + 1, answered, length);
		assert_int_equal(weir_agent_shed_answer_decode(exact + 1, length, &keys, &answer),
			WEIR_AGENT_REFUSAL_LENGTH);
		free(exact);
	}
}

TEST(no_kind_is_accepted_as_another) {
	struct weir_agent_steal steal;
	struct weir_agent_probe probe;
	uint8_t bytes[BYTES];

	for (uint32_t kind = 0; kind < 256; kind++) {
		weir_agent_shed_encode(&sample_shed, &keys.key[0], bytes);
		bytes[5] = (uint8_t)kind;
		authenticate_again(bytes);
		assert_int_equal(decode_shed(bytes),
			kind == WEIR_AGENT_SHED ? NONE : WEIR_AGENT_REFUSAL_KIND);
		assert_int_not_equal(decode_answer(bytes), NONE);
		assert_int_not_equal(weir_agent_steal_decode(bytes, BYTES, &keys, &steal), NONE);
		assert_int_not_equal(weir_agent_probe_decode(bytes, BYTES, &keys, &probe), NONE);
		weir_agent_shed_answer_encode(&sample_answer, &keys.key[0], bytes);
		bytes[5] = (uint8_t)kind;
		authenticate_again(bytes);
		assert_int_equal(decode_answer(bytes),
			kind == WEIR_AGENT_SHED_ANSWER ? NONE : WEIR_AGENT_REFUSAL_KIND);
	}
}

TEST(every_flipped_bit_is_refused) {
	uint8_t ordered[BYTES], answered[BYTES];

	weir_agent_shed_encode(&sample_shed, &keys.key[0], ordered);
	weir_agent_shed_answer_encode(&sample_answer, &keys.key[0], answered);
	for (size_t bit = 0; bit < (size_t)8 * BYTES; bit++) {
		ordered[bit / 8] ^= (uint8_t)(1u << bit % 8);
		answered[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(decode_shed(ordered), NONE);
		assert_int_not_equal(decode_answer(answered), NONE);
		ordered[bit / 8] ^= (uint8_t)(1u << bit % 8);
		answered[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(decode_shed(ordered), NONE);
	assert_int_equal(decode_answer(answered), NONE);
}

// --- the document ---

TEST(document_has_every_field_result_and_both_examples) {
	size_t at = WEIR_AGENT_FIELDS_START;
	uint8_t bytes[BYTES];
	char line[256];

#define X(type, field, meaning) \
	document_field(&at, sizeof(((struct weir_agent_shed *)0)->field), #field, meaning);
	WEIR_AGENT_SHED_FIELDS(X)
#undef X
	document_rest(at);
	at = WEIR_AGENT_FIELDS_START;
#define X(type, field, meaning) \
	document_field(&at, sizeof(((struct weir_agent_shed_answer *)0)->field), #field, meaning);
	WEIR_AGENT_SHED_ANSWER_FIELDS(X)
#undef X
	document_rest(at);
	for (uint32_t result = 1; result < WEIR_AGENT_SHED_RESULT_COUNT; result++) {
		snprintf(line, sizeof(line), "\n| %u | `%s` | %s |\n", result,
			weir_agent_shed_result_name(result),
			weir_agent_shed_result_meaning(result));
		assert_documented(line);
	}
	weir_agent_shed_encode(&sample_shed, &keys.key[0], bytes);
	document_bytes(bytes);
	weir_agent_shed_answer_encode(&sample_answer, &keys.key[0], bytes);
	document_bytes(bytes);
}
