// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as datagrams between weir-control and weir-agent, in both
// directions. Checked: an accepted datagram has exactly the bytes that an owner of a key has
// sent; a refused datagram has no effect; a report from an owner has valid values; a sequence
// number is accepted once.
#include <sodium.h>

#include "agent_message.h"
#include "agent_rig.h"
#include "fuzz.h"
#include "health_state.h"
#include "replay.h"

#define BYTES WEIR_AGENT_MESSAGE_BYTES
#define SEQUENCES 4096

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	(void)argc;
	(void)argv;
	REQUIRE(weir_agent_crypto_start() == 0);
	return 0;
}

static bool is_same(const void *a, const void *b, size_t bytes) {
	return memcmp(a, b, bytes) == 0;
}

static enum weir_agent_refusal as_probe(const uint8_t *bytes, size_t count) {
	struct weir_agent_probe probe, untouched;
	enum weir_agent_refusal refusal;
	uint8_t again[BYTES];

	memset(&probe, 0x5a, sizeof(probe));
	memcpy(&untouched, &probe, sizeof(probe));
	refusal = weir_agent_probe_decode(bytes, count, &agent_rig_keys, &probe);
	REQUIRE(refusal <= WEIR_AGENT_REFUSAL_VALUE);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		REQUIRE(is_same(&probe, &untouched, sizeof(probe)));
		return refusal;
	}
	REQUIRE(count == BYTES && probe.balancer != 0 && probe.interval_ms > 0);
	weir_agent_probe_encode(&probe, weir_agent_keys_find(&agent_rig_keys, probe.key_id), again);
	REQUIRE(is_same(bytes, again, BYTES));
	return refusal;
}

static void check_report(const struct weir_report *report) {
	struct weir_report again = *report;

	REQUIRE(weir_report_check(&again) == 0);
	REQUIRE((report->given & ~WEIR_AGENT_GIVEN) == 0);
	REQUIRE(again.port_word_count == report->port_word_count);
	REQUIRE(weir_port_words_are_valid(report->port_words, report->port_word_count));
	REQUIRE(report->word < WEIR_HEALTH_WORD_COUNT);
	REQUIRE(strcmp(again.why, report->why) == 0 && strlen(report->why) < WEIR_AGENT_WHY_BYTES);
	for (uint32_t field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		REQUIRE(weir_report_value(&again, field) == weir_report_value(report, field));
	}
}

// *ret is set only if the result is NONE.
static enum weir_agent_refusal as_answer(
	const uint8_t *bytes, size_t count, struct weir_agent_answer *ret) {
	struct weir_agent_answer answer, untouched;
	enum weir_agent_refusal refusal;
	struct weir_report report;
	uint8_t again[BYTES];

	memset(&answer, 0x5a, sizeof(answer));
	memcpy(&untouched, &answer, sizeof(answer));
	refusal = weir_agent_answer_decode(bytes, count, &agent_rig_keys, &answer);
	REQUIRE(refusal <= WEIR_AGENT_REFUSAL_VALUE);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		REQUIRE(is_same(&answer, &untouched, sizeof(answer)));
		return refusal;
	}
	REQUIRE(count == BYTES && answer.agent != 0 && answer.serial != 0);
	weir_agent_answer_encode(
		&answer, weir_agent_keys_find(&agent_rig_keys, answer.key_id), again);
	REQUIRE(is_same(bytes, again, BYTES));
	weir_agent_answer_report(&answer, NULL, &report);
	check_report(&report);
	*ret = answer;
	return refusal;
}

static enum weir_agent_refusal as_steal(const uint8_t *bytes, size_t count) {
	struct weir_agent_steal steal, untouched;
	struct weir_agent_steal_answer answer;
	enum weir_agent_refusal refusal;
	uint8_t again[BYTES];

	memset(&steal, 0x5a, sizeof(steal));
	memcpy(&untouched, &steal, sizeof(steal));
	refusal = weir_agent_steal_decode(bytes, count, &agent_rig_keys, &steal);
	REQUIRE(refusal <= WEIR_AGENT_REFUSAL_VALUE);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		REQUIRE(is_same(&steal, &untouched, sizeof(steal)));
		return refusal;
	}
	REQUIRE(count == BYTES && weir_agent_message_kind(bytes, count) == WEIR_AGENT_STEAL);
	REQUIRE(steal.id != 0 && steal.client_port - 1 < UINT16_MAX &&
		steal.vip_port - 1 < UINT16_MAX);
	weir_agent_steal_encode(&steal, weir_agent_keys_find(&agent_rig_keys, steal.key_id), again);
	REQUIRE(is_same(bytes, again, BYTES));
	weir_agent_steal_answer_begin(&steal, &answer);
	REQUIRE(weir_agent_steal_is_same_flow(&steal, &answer));
	return refusal;
}

static enum weir_agent_refusal as_steal_answer(const uint8_t *bytes, size_t count) {
	struct weir_agent_steal_answer answer, untouched;
	enum weir_agent_refusal refusal;
	uint8_t again[BYTES];

	memset(&answer, 0x5a, sizeof(answer));
	memcpy(&untouched, &answer, sizeof(answer));
	refusal = weir_agent_steal_answer_decode(bytes, count, &agent_rig_keys, &answer);
	REQUIRE(refusal <= WEIR_AGENT_REFUSAL_VALUE);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		REQUIRE(is_same(&answer, &untouched, sizeof(answer)));
		return refusal;
	}
	REQUIRE(count == BYTES && answer.result > WEIR_AGENT_STEAL_NO_RESULT &&
		answer.result < WEIR_AGENT_STEAL_RESULT_COUNT);
	weir_agent_steal_answer_encode(
		&answer, weir_agent_keys_find(&agent_rig_keys, answer.key_id), again);
	REQUIRE(is_same(bytes, again, BYTES));
	return refusal;
}

static enum weir_agent_refusal as_tcp(const uint8_t *bytes, size_t count) {
	struct weir_agent_tcp tcp, untouched;
	enum weir_agent_refusal refusal;
	uint8_t again[BYTES];

	memset(&tcp, 0x5a, sizeof(tcp));
	memcpy(&untouched, &tcp, sizeof(tcp));
	refusal = weir_agent_tcp_decode(bytes, count, &agent_rig_keys, &tcp);
	REQUIRE(refusal <= WEIR_AGENT_REFUSAL_VALUE);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		REQUIRE(is_same(&tcp, &untouched, sizeof(tcp)));
		return refusal;
	}
	REQUIRE(count == BYTES && tcp.agent != 0 && (int64_t)tcp.ipv6.sent_bytes >= 0);
	weir_agent_tcp_encode(&tcp, weir_agent_keys_find(&agent_rig_keys, tcp.key_id), again);
	REQUIRE(is_same(bytes, again, BYTES));
	return refusal;
}

static enum weir_agent_refusal as_shed(const uint8_t *bytes, size_t count) {
	struct weir_agent_shed shed, untouched;
	enum weir_agent_refusal refusal;
	uint8_t again[BYTES];

	memset(&shed, 0x5a, sizeof(shed));
	memcpy(&untouched, &shed, sizeof(shed));
	refusal = weir_agent_shed_decode(bytes, count, &agent_rig_keys, &shed);
	REQUIRE(refusal <= WEIR_AGENT_REFUSAL_VALUE);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		REQUIRE(is_same(&shed, &untouched, sizeof(shed)));
		return refusal;
	}
	REQUIRE(count == BYTES && weir_agent_message_kind(bytes, count) == WEIR_AGENT_SHED);
	REQUIRE(shed.id != 0 && shed.count <= WEIR_AGENT_SHED_COUNT_MOST &&
		shed.rate_milli_per_s - 1 < WEIR_AGENT_SHED_RATE_MILLI_MOST &&
		shed.bind_count - 1 < WEIR_AGENT_SHED_BINDS &&
		strlen(shed.service) < sizeof(shed.service));
	weir_agent_shed_encode(&shed, weir_agent_keys_find(&agent_rig_keys, shed.key_id), again);
	REQUIRE(is_same(bytes, again, BYTES));
	return refusal;
}

static enum weir_agent_refusal as_shed_answer(const uint8_t *bytes, size_t count) {
	struct weir_agent_shed_answer answer, untouched;
	enum weir_agent_refusal refusal;
	uint8_t again[BYTES];

	memset(&answer, 0x5a, sizeof(answer));
	memcpy(&untouched, &answer, sizeof(answer));
	refusal = weir_agent_shed_answer_decode(bytes, count, &agent_rig_keys, &answer);
	REQUIRE(refusal <= WEIR_AGENT_REFUSAL_VALUE);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		REQUIRE(is_same(&answer, &untouched, sizeof(answer)));
		return refusal;
	}
	REQUIRE(count == BYTES && answer.result > WEIR_AGENT_SHED_NO_RESULT &&
		answer.result < WEIR_AGENT_SHED_RESULT_COUNT &&
		answer.method < WEIR_AGENT_SHED_METHOD_COUNT);
	weir_agent_shed_answer_encode(
		&answer, weir_agent_keys_find(&agent_rig_keys, answer.key_id), again);
	REQUIRE(is_same(bytes, again, BYTES));
	return refusal;
}

// Parses the bytes as every kind of datagram. Returns how many of the parsers accept them.
static unsigned int taken_as(const uint8_t *bytes, size_t count) {
	struct weir_agent_answer answer;

	return (as_probe(bytes, count) == WEIR_AGENT_REFUSAL_NONE) +
	       (as_answer(bytes, count, &answer) == WEIR_AGENT_REFUSAL_NONE) +
	       (as_steal(bytes, count) == WEIR_AGENT_REFUSAL_NONE) +
	       (as_steal_answer(bytes, count) == WEIR_AGENT_REFUSAL_NONE) +
	       (as_tcp(bytes, count) == WEIR_AGENT_REFUSAL_NONE) +
	       (as_shed(bytes, count) == WEIR_AGENT_REFUSAL_NONE) +
	       (as_shed_answer(bytes, count) == WEIR_AGENT_REFUSAL_NONE);
}

static void foreign(struct fuzz_input *input) {
	size_t bytes;
	const uint8_t *data = fuzz_take(input, input->bytes, &bytes);
	uint8_t *exact = malloc(bytes + 1); // exact size: ASan detects a read beyond the end

	REQUIRE(exact != NULL);
	memcpy(exact + 1, data, bytes); // unaligned data
	REQUIRE(taken_as(exact + 1, bytes) <= 1);
	free(exact);
}

// Builds a datagram with arbitrary contents and a valid authentication code, as the owner of the
// key would.
static void take_sealed(struct fuzz_input *input, uint8_t *datagram) {
	const struct weir_agent_key *key;
	size_t bytes;
	const uint8_t *data = fuzz_take(input, BYTES, &bytes);

	memset(datagram, 0, BYTES);
	memcpy(datagram, data, bytes);
	key = weir_agent_keys_find(&agent_rig_keys, (uint16_t)(datagram[6] << 8 | datagram[7]));
	if (key != NULL) {
		crypto_auth(datagram + WEIR_AGENT_MAC_START, datagram, WEIR_AGENT_MAC_START,
			key->secret);
	}
}

static void owner(struct fuzz_input *input) {
	struct weir_agent_answer first, second;
	struct weir_report report;
	uint8_t datagram[BYTES];

	take_sealed(input, datagram);
	REQUIRE(as_probe(datagram, BYTES) != WEIR_AGENT_REFUSAL_MAC);
	REQUIRE(as_steal(datagram, BYTES) != WEIR_AGENT_REFUSAL_MAC);
	REQUIRE(as_steal_answer(datagram, BYTES) != WEIR_AGENT_REFUSAL_MAC);
	REQUIRE(as_tcp(datagram, BYTES) != WEIR_AGENT_REFUSAL_MAC);
	REQUIRE(as_shed(datagram, BYTES) != WEIR_AGENT_REFUSAL_MAC);
	REQUIRE(as_shed_answer(datagram, BYTES) != WEIR_AGENT_REFUSAL_MAC);
	REQUIRE(taken_as(datagram, BYTES) <= 1);
	if (as_answer(datagram, BYTES, &first) == WEIR_AGENT_REFUSAL_NONE) {
		take_sealed(input, datagram);
		if (as_answer(datagram, BYTES, &second) == WEIR_AGENT_REFUSAL_NONE) {
			weir_agent_answer_report(&second, &first, &report);
			check_report(&report);
		}
	}
	// Flip one bit of the authentication code.
	datagram[WEIR_AGENT_MAC_START + fuzz_take8(input) % WEIR_AGENT_MAC_BYTES] ^=
		(uint8_t)(1u << fuzz_take8(input) % 8);
	REQUIRE(taken_as(datagram, BYTES) == 0);
}

// Checks that no sequence number of a sender is accepted twice while the sender's state is kept.
static void replays(struct fuzz_input *input) {
	static struct weir_replay replay;
	static uint8_t taken[256][SEQUENCES]; // all zero between inputs
	uint64_t now_ms = 1, last_ms[256] = {0};

	memset(&replay, 0, sizeof(replay));
	while (input->bytes > 0) {
		uint8_t sender = fuzz_take8(input);
		uint64_t sequence = fuzz_take8(input) * UINT64_C(16) + fuzz_take8(input) % 16;
		enum weir_replay_verdict verdict;

		now_ms += sequence % 7;
		if (last_ms[sender] > 0 && last_ms[sender] + 100 <= now_ms) {
			memset(taken[sender], 0, SEQUENCES); // the sender may have been evicted
		}
		verdict = weir_replay_take(&replay, sender, sequence, now_ms, 100);
		if (verdict == WEIR_REPLAY_NEW || verdict == WEIR_REPLAY_LATE) {
			REQUIRE(!taken[sender][sequence]);
			taken[sender][sequence] = 1;
			last_ms[sender] = now_ms;
		}
	}
	for (uint32_t sender = 0; sender < 256; sender++) {
		if (last_ms[sender] > 0) {
			memset(taken[sender], 0, SEQUENCES);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct fuzz_input input = {data, bytes};

	switch ((enum agent_rig_form)(fuzz_take8(&input) % AGENT_RIG_FORMS)) {
	case AGENT_RIG_FOREIGN:
		foreign(&input);
		break;
	case AGENT_RIG_OWNER:
		owner(&input);
		break;
	default:
		replays(&input);
	}
	return 0;
}
