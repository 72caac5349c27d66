// SPDX-License-Identifier: BSD-3-Clause
//
// Health state: the one machine that all that is heard of a backend's health goes through. It keeps
// two things apart, and the state follows from both: the verdict of the checks, and the backend's
// own word. docs/guide/health.md has the same tables, and a test compares them.
//
// Source: "Site Reliability Engineering" (2016), chapter 20: a lame duck listens and can serve, but
// asks its clients to send no new requests.
//
// What an operator orders (drain, maintenance) is kept apart and does not go through here.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// X(NAME, "name")
#define WEIR_HEALTH_STATES(X) \
	X(STARTING, "starting") \
	X(HEALTHY, "healthy") X(LAME_DUCK, "lame-duck") X(REFUSING, "refusing")

// What the checks say. X(NAME, "name", "meaning")
#define WEIR_HEALTH_VERDICTS(X) \
	X(UNKNOWN, "unknown", "neither `rise` nor `fall` checks in a row yet") \
	X(PASSING, "passing", "the last `rise` checks passed, and no `fall` failed since") \
	X(FAILING, "failing", "the last `fall` checks failed, and no `rise` passed since") \
	X(UNCHECKED, "unchecked", "the service has no health check")

// What the backend said last of itself. X(NAME, "name", "meaning")
#define WEIR_HEALTH_WORDS(X) \
	X(NONE, "nothing", "it has said nothing, or nothing since its checks failed") \
	X(STARTING, "starting", "it is not ready yet; checks may connect") \
	X(READY, "ready", "it takes new flows") \
	X(LAME_DUCK, "lame-duck", "no new flows, please; it serves those that it has") \
	X(DOWN, "down", "it does not serve")

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

// The state that follows. Anything out of range counts as UNKNOWN and NONE.
enum weir_health_state weir_health_state_of(struct weir_health_facts facts);

// Facts of a backend of which only the state is known: it was adopted from another process. Its
// state is `state` until something is heard: but for a service without a check, where nothing may
// ever be, STARTING and REFUSING are HEALTHY.
struct weir_health_facts weir_health_adopt(enum weir_health_state state, bool checked);

// The checks say something else, or the same again. When they fail, what the backend said before
// counts no longer: the process that said it may be gone. What it goes on saying is told again.
struct weir_health_facts weir_health_judge(
	struct weir_health_facts facts, enum weir_health_verdict verdict);

// The backend has said something, or the same again.
struct weir_health_facts weir_health_say(
	struct weir_health_facts facts, enum weir_health_word word);

// Nothing has been heard from the backend for so long that its word expires. A lame duck stays one:
// silence is no "ready".
struct weir_health_facts weir_health_expire(struct weir_health_facts facts);

const char *weir_health_state_name(enum weir_health_state state);
const char *weir_health_verdict_name(enum weir_health_verdict verdict);
const char *weir_health_word_name(enum weir_health_word word);
