// SPDX-License-Identifier: BSD-3-Clause
//
// Tests steal requests and answers: their encoding, the bounds of each field, and that they are not
// accepted as another kind of datagram. The layout is specified in
// docs/reference/agent-protocol.md.
#include "message_lab.h"

// The two datagrams of the document's examples.
static const struct weir_agent_steal sample_steal = {
	.key_id = 1,
	.balancer = 0x1112131415161718,
	.id = 5,
	.agent = 0x2122232425262728,
	.deadline_ms = 90400,
	.recipient = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 11},
	.recipient_port = 4777,
	.client = {[10] = 0xff, [11] = 0xff, [12] = 203, [13] = 0, [14] = 113, [15] = 7},
	.vip = {[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 51, [14] = 100, [15] = 10},
	.client_port = 51034,
	.vip_port = 80,
	.protocol = 6,
};

static const struct weir_agent_steal_answer sample_answer = {
	.key_id = 1,
	.agent = 0x2122232425262728,
	.balancer = 0x1112131415161718,
	.id = 5,
	.clock_ms = 90201,
	.client = {[10] = 0xff, [11] = 0xff, [12] = 203, [13] = 0, [14] = 113, [15] = 7},
	.vip = {[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 51, [14] = 100, [15] = 10},
	.client_port = 51034,
	.vip_port = 80,
	.protocol = 6,
	.result = WEIR_AGENT_STEAL_REMOVED,
};

static const uint8_t ipv6[WEIR_AGENT_RECIPIENT_BYTES] = {0x20, 1, 0x0d, 0xb8, [15] = 1};

static enum weir_agent_refusal decode_steal(const uint8_t *bytes) {
	struct weir_agent_steal steal;

	return weir_agent_steal_decode(bytes, BYTES, &keys, &steal);
}

static enum weir_agent_refusal decode_answer(const uint8_t *bytes) {
	struct weir_agent_steal_answer answer;

	return weir_agent_steal_answer_decode(bytes, BYTES, &keys, &answer);
}

// --- decoding returns the sent values ---

static void expect_steal(const struct weir_agent_steal *steal) {
	struct weir_agent_steal got;
	uint8_t bytes[BYTES];

	memset(&got, 0x5a, sizeof(got));
	weir_agent_steal_encode(steal, &keys.key[0], bytes);
	assert_int_equal(weir_agent_steal_decode(bytes, BYTES, &keys, &got), NONE);
	assert_int_equal(got.key_id, 1);
#define X(type, field, meaning) assert_memory_equal(&got.field, &steal->field, sizeof(got.field));
	WEIR_AGENT_STEAL_FIELDS(X)
#undef X
}

static void expect_answer(const struct weir_agent_steal_answer *answer) {
	struct weir_agent_steal_answer got;
	uint8_t bytes[BYTES];

	memset(&got, 0x5a, sizeof(got));
	weir_agent_steal_answer_encode(answer, &keys.key[0], bytes);
	assert_int_equal(weir_agent_steal_answer_decode(bytes, BYTES, &keys, &got), NONE);
	assert_int_equal(got.key_id, 1);
#define X(type, field, meaning) assert_memory_equal(&got.field, &answer->field, sizeof(got.field));
	WEIR_AGENT_STEAL_ANSWER_FIELDS(X)
#undef X
}

static int start_crypto(__attribute__((unused)) void **state) {
	return weir_agent_crypto_start();
}

TEST_GROUP(start_crypto);

TEST(every_field_survives_its_largest_values) {
	static const uint64_t numbers[] = {
		1, 0x80000001, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX};
	static const uint32_t ports[] = {1, 80, UINT16_MAX};

	expect_steal(&sample_steal);
	expect_answer(&sample_answer);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct weir_agent_steal steal = sample_steal;
		struct weir_agent_steal_answer answer = sample_answer;

		steal.balancer = numbers[i];
		steal.id = ~numbers[i] | 1;
		steal.agent = numbers[i];
		steal.deadline_ms = ~numbers[i];
		steal.recipient_port = (uint32_t)numbers[i];
		expect_steal(&steal);
		answer.balancer = numbers[i];
		answer.id = ~numbers[i] | 1;
		answer.agent = numbers[i];
		answer.clock_ms = ~numbers[i];
		expect_answer(&answer);
	}
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		struct weir_agent_steal steal = sample_steal;
		struct weir_agent_steal_answer answer = sample_answer;

		steal.client_port = answer.vip_port = ports[i];
		steal.vip_port = answer.client_port = ports[2 - i];
		expect_steal(&steal);
		expect_answer(&answer);
	}
}

TEST(flows_of_both_families_survive) {
	struct weir_agent_steal steal = sample_steal;
	struct weir_agent_steal_answer answer = sample_answer;
	const uint8_t *bytes;

	memcpy(steal.client, ipv6, sizeof(ipv6));
	memcpy(steal.vip, ipv6, sizeof(ipv6));
	memcpy(answer.client, ipv6, sizeof(ipv6));
	memcpy(answer.vip, ipv6, sizeof(ipv6));
	expect_steal(&steal);
	expect_answer(&answer);
	assert_int_equal(weir_agent_address_family(ipv6, &bytes), 6);
	assert_ptr_equal(bytes, ipv6);
	assert_int_equal(weir_agent_address_family(sample_steal.client, &bytes), 4);
	assert_memory_equal(bytes, "\xcb\x00\x71\x07", 4);
}

TEST(every_result_survives_and_only_two_permit) {
	unsigned int permits = 0;

	for (uint8_t result = 1; result < WEIR_AGENT_STEAL_RESULT_COUNT; result++) {
		struct weir_agent_steal_answer answer = sample_answer;

		answer.result = result;
		expect_answer(&answer);
		permits += weir_agent_steal_permits(result);
		assert_true(strlen(weir_agent_steal_result_name(result)) > 0);
		assert_true(strlen(weir_agent_steal_result_meaning(result)) > 0);
	}
	assert_int_equal(permits, 2);
	assert_true(weir_agent_steal_permits(WEIR_AGENT_STEAL_NOTHING));
	assert_true(weir_agent_steal_permits(WEIR_AGENT_STEAL_REMOVED));
	assert_false(weir_agent_steal_permits(WEIR_AGENT_STEAL_NO_RESULT));
}

// --- an answer repeats the values of its request ---

TEST(answer_repeats_its_request) {
	struct weir_agent_steal_answer answer;

	weir_agent_steal_answer_begin(&sample_steal, &answer);
	assert_int_equal(answer.result, WEIR_AGENT_STEAL_NO_RESULT);
	assert_true(answer.balancer == sample_steal.balancer && answer.id == sample_steal.id &&
		    answer.agent == sample_steal.agent);
	assert_true(weir_agent_steal_is_same_flow(&sample_steal, &answer));
	assert_true(weir_agent_steal_is_same_flow(&sample_steal, &sample_answer));
}

TEST(any_other_flow_is_detected) {
#define OTHER(field, value) \
	do { \
		struct weir_agent_steal_answer other = sample_answer; \
		other.field = value; \
		assert_false(weir_agent_steal_is_same_flow(&sample_steal, &other)); \
	} while (0)
	OTHER(client[15], 8);
	OTHER(client[0], 1);
	OTHER(vip[15], 11);
	OTHER(vip[0], 1);
	OTHER(client_port, 51035);
	OTHER(vip_port, 81);
	OTHER(protocol, 17);
#undef OTHER
}

// --- refused datagrams ---

TEST(numbers_out_of_range_are_refused) {
	uint8_t bytes[BYTES];

#define STEAL(field, value) \
	do { \
		struct weir_agent_steal steal = sample_steal; \
		steal.field = value; \
		weir_agent_steal_encode(&steal, &keys.key[0], bytes); \
		assert_int_equal(decode_steal(bytes), WEIR_AGENT_REFUSAL_VALUE); \
	} while (0)
#define ANSWER(field, value) \
	do { \
		struct weir_agent_steal_answer answer = sample_answer; \
		answer.field = value; \
		weir_agent_steal_answer_encode(&answer, &keys.key[0], bytes); \
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_VALUE); \
	} while (0)
#define BOTH(field, value) \
	do { \
		STEAL(field, value); \
		ANSWER(field, value); \
	} while (0)
	BOTH(balancer, 0);
	BOTH(id, 0);
	BOTH(agent, 0);
	BOTH(client_port, 0);
	BOTH(client_port, UINT16_MAX + 1);
	BOTH(vip_port, 0);
	BOTH(vip_port, UINT32_MAX);
	BOTH(protocol, 0);
	BOTH(protocol, 17);
	BOTH(client[0], 0x20); // a client of another family than the VIP
	BOTH(vip[10], 0);
	ANSWER(result, WEIR_AGENT_STEAL_NO_RESULT);
	ANSWER(result, WEIR_AGENT_STEAL_RESULT_COUNT);
	ANSWER(result, 255);
#undef STEAL
#undef ANSWER
#undef BOTH
}

TEST(every_other_length_is_refused) {
	uint8_t request[BYTES], answered[BYTES];
	struct weir_agent_steal steal;
	struct weir_agent_steal_answer answer;

	weir_agent_steal_encode(&sample_steal, &keys.key[0], request);
	weir_agent_steal_answer_encode(&sample_answer, &keys.key[0], answered);
	for (size_t length = 0; length < BYTES; length++) {
		uint8_t *exact = malloc(length + 1); // so that ASan detects invalid reads

		assert_non_null(exact);
		memcpy(exact + 1, request, length);
		assert_int_equal(weir_agent_message_kind(exact + 1, length),
			length > 5 ? WEIR_AGENT_STEAL : 0);
		assert_int_equal(weir_agent_steal_decode(exact + 1, length, &keys, &steal),
			WEIR_AGENT_REFUSAL_LENGTH);
		memcpy(exact + 1, answered, length);
		assert_int_equal(weir_agent_steal_answer_decode(exact + 1, length, &keys, &answer),
			WEIR_AGENT_REFUSAL_LENGTH);
		free(exact);
	}
}

// A datagram of one kind is not accepted as another kind, even if an owner of the key signed it as
// that kind.
TEST(no_kind_is_accepted_as_another) {
	struct weir_agent_probe probe;
	struct weir_agent_answer answer;
	uint8_t bytes[BYTES];

	for (uint32_t kind = 0; kind < 256; kind++) {
		weir_agent_steal_encode(&sample_steal, &keys.key[0], bytes);
		bytes[5] = (uint8_t)kind;
		authenticate_again(bytes);
		assert_int_equal(weir_agent_message_kind(bytes, BYTES), kind);
		assert_int_equal(decode_steal(bytes),
			kind == WEIR_AGENT_STEAL ? NONE : WEIR_AGENT_REFUSAL_KIND);
		assert_int_not_equal(decode_answer(bytes), NONE);
		assert_int_not_equal(weir_agent_probe_decode(bytes, BYTES, &keys, &probe), NONE);
		assert_int_not_equal(weir_agent_answer_decode(bytes, BYTES, &keys, &answer), NONE);
		weir_agent_steal_answer_encode(&sample_answer, &keys.key[0], bytes);
		bytes[5] = (uint8_t)kind;
		authenticate_again(bytes);
		assert_int_equal(decode_answer(bytes),
			kind == WEIR_AGENT_STEAL_ANSWER ? NONE : WEIR_AGENT_REFUSAL_KIND);
	}
}

TEST(every_byte_of_the_rest_is_zero) {
	uint8_t bytes[BYTES];

	for (size_t at = 101; at < WEIR_AGENT_MAC_START; at++) {
		weir_agent_steal_encode(&sample_steal, &keys.key[0], bytes);
		assert_int_equal(bytes[at], 0);
		bytes[at] = 0x80;
		authenticate_again(bytes);
		assert_int_equal(decode_steal(bytes), WEIR_AGENT_REFUSAL_REST);
	}
	for (size_t at = 82; at < WEIR_AGENT_MAC_START; at++) {
		weir_agent_steal_answer_encode(&sample_answer, &keys.key[0], bytes);
		assert_int_equal(bytes[at], 0);
		bytes[at] = 1;
		authenticate_again(bytes);
		assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_REST);
	}
}

TEST(only_known_keys_are_accepted) {
	const struct weir_agent_key unknown = {.id = 2}, other = {.id = 1, .secret = {1}};
	struct weir_agent_steal steal = {0};
	uint8_t bytes[BYTES];

	weir_agent_steal_encode(&sample_steal, &keys.key[1], bytes);
	assert_int_equal(weir_agent_steal_decode(bytes, BYTES, &keys, &steal), NONE);
	assert_int_equal(steal.key_id, 0x0203);
	weir_agent_steal_encode(&sample_steal, &unknown, bytes);
	assert_int_equal(decode_steal(bytes), WEIR_AGENT_REFUSAL_KEY);
	weir_agent_steal_encode(&sample_steal, &other, bytes);
	assert_int_equal(decode_steal(bytes), WEIR_AGENT_REFUSAL_MAC);
	weir_agent_steal_answer_encode(&sample_answer, &unknown, bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_KEY);
	weir_agent_steal_answer_encode(&sample_answer, &other, bytes);
	assert_int_equal(decode_answer(bytes), WEIR_AGENT_REFUSAL_MAC);
}

TEST(every_flipped_bit_is_refused) {
	struct weir_agent_steal steal, before_steal;
	struct weir_agent_steal_answer answer, before_answer;
	uint8_t request[BYTES], answered[BYTES];

	memset(&steal, 0x5a, sizeof(steal));
	memset(&answer, 0x5a, sizeof(answer));
	before_steal = steal;
	before_answer = answer;
	weir_agent_steal_encode(&sample_steal, &keys.key[0], request);
	weir_agent_steal_answer_encode(&sample_answer, &keys.key[0], answered);
	for (size_t bit = 0; bit < (size_t)8 * BYTES; bit++) {
		request[bit / 8] ^= (uint8_t)(1u << bit % 8);
		answered[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(weir_agent_steal_decode(request, BYTES, &keys, &steal), NONE);
		assert_int_not_equal(
			weir_agent_steal_answer_decode(answered, BYTES, &keys, &answer), NONE);
		request[bit / 8] ^= (uint8_t)(1u << bit % 8);
		answered[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_memory_equal(&steal, &before_steal, sizeof(steal));
	assert_memory_equal(&answer, &before_answer, sizeof(answer));
	assert_int_equal(decode_steal(request), NONE);
	assert_int_equal(decode_answer(answered), NONE);
}

// --- the document ---

TEST(document_has_every_field_result_and_both_examples) {
	size_t at = WEIR_AGENT_FIELDS_START;
	uint8_t bytes[BYTES];
	char line[256];

#define X(type, field, meaning) \
	document_field(&at, sizeof(((struct weir_agent_steal *)0)->field), #field, meaning);
	WEIR_AGENT_STEAL_FIELDS(X)
#undef X
	document_rest(at);
	at = WEIR_AGENT_FIELDS_START;
#define X(type, field, meaning) \
	document_field(&at, sizeof(((struct weir_agent_steal_answer *)0)->field), #field, meaning);
	WEIR_AGENT_STEAL_ANSWER_FIELDS(X)
#undef X
	document_rest(at);
	for (uint32_t result = 1; result < WEIR_AGENT_STEAL_RESULT_COUNT; result++) {
		snprintf(line, sizeof(line), "\n| %u | `%s` | %s |\n", result,
			weir_agent_steal_result_name(result),
			weir_agent_steal_result_meaning(result));
		assert_documented(line);
	}
	snprintf(
		line, sizeof(line), "more than %d ms ahead is rejected", WEIR_AGENT_STEAL_AHEAD_MS);
	assert_documented(line);
	weir_agent_steal_encode(&sample_steal, &keys.key[0], bytes);
	document_bytes(bytes);
	weir_agent_steal_answer_encode(&sample_answer, &keys.key[0], bytes);
	document_bytes(bytes);
}
