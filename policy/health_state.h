// SPDX-License-Identifier: BSD-3-Clause
//
// Health state: the state machine for all health information about a backend. It keeps two inputs,
// and derives the state from both: the verdict of the checks, and the state that the backend
// announces (its word). docs/guide/health.md has the same tables, and a test compares them.
//
// Source: "Site Reliability Engineering" (2016), chapter 20: a lame duck listens and can serve, but
// requests that its clients send it no new requests.
//
// An operator's order (drain, maintenance) is kept separately and does not pass through here.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// X(NAME, "name")
#define WEIR_HEALTH_STATES(X) \
	X(STARTING, "starting") \
	X(HEALTHY, "healthy") X(LAME_DUCK, "lame-duck") X(REFUSING, "refusing")

// The verdict of the checks. X(NAME, "name", "meaning")
#define WEIR_HEALTH_VERDICTS(X) \
	X(UNKNOWN, "unknown", "neither `rise` passed nor `fall` failed in a row yet") \
	X(PASSING, "passing", "the last `rise` checks passed, and no `fall` failed since") \
	X(FAILING, "failing", "the last `fall` checks failed, and no `rise` passed since") \
	X(UNCHECKED, "unchecked", "the service has no health check")

// The last announcement of the backend. X(NAME, "name", "meaning")
#define WEIR_HEALTH_WORDS(X) \
	X(NONE, "nothing", "nothing announced, or not since its checks failed") \
	X(STARTING, "starting", "not ready yet; checks may connect") \
	X(READY, "ready", "accepts new flows") \
	X(LAME_DUCK, "lame-duck", "no new flows; existing ones are served") \
	X(DOWN, "down", "does not serve")

enum weir_health_state {
#define X(name, key) WEIR_HEALTH_##name,
	WEIR_HEALTH_STATES(X)
#undef X
};

enum weir_health_verdict {
#define X(name, key, meaning) WEIR_HEALTH_VERDICT_##name,
	WEIR_HEALTH_VERDICTS(X)
#undef X
		WEIR_HEALTH_VERDICT_COUNT
};

enum weir_health_word {
#define X(name, key, meaning) WEIR_HEALTH_WORD_##name,
	WEIR_HEALTH_WORDS(X)
#undef X
		WEIR_HEALTH_WORD_COUNT
};

struct weir_health_facts { // of one backend
	uint8_t verdict; // enum weir_health_verdict
	uint8_t word; // enum weir_health_word
};

// The resulting state. Values out of range count as UNKNOWN and NONE.
enum weir_health_state weir_health_state_of(struct weir_health_facts facts);

// Initial facts for a backend whose state alone is known, because it was adopted from another
// process. Its state is `state` until the first information arrives; but for a service without a
// check, where none may ever arrive, STARTING and REFUSING become HEALTHY.
struct weir_health_facts weir_health_adopt(enum weir_health_state state, bool checked);

// Set the verdict of the checks, changed or not. When they fail, earlier announcements expire:
// their process may have ended. A state that still holds is announced again.
struct weir_health_facts weir_health_set_verdict(
	struct weir_health_facts facts, enum weir_health_verdict verdict);

// Set the backend's announced state, changed or not. The end of DOWN makes a passing verdict
// UNKNOWN: after a quick restart of the server, its checks passed before it. The caller must begin
// the count of the checks again.
struct weir_health_facts weir_health_set_word(
	struct weir_health_facts facts, enum weir_health_word word);

// Whether the first of two words is worse: down, lame duck, starting, ready, nothing. Values out of
// range count as NONE.
bool weir_health_word_is_worse(uint8_t word, uint8_t than);

// The announcement has expired without a repetition, which also ends DOWN. A lame duck stays one:
// silence does not mean "ready".
struct weir_health_facts weir_health_expire(struct weir_health_facts facts);

const char *weir_health_state_name(enum weir_health_state state);
const char *weir_health_verdict_name(enum weir_health_verdict verdict);
const char *weir_health_word_name(enum weir_health_word word);
