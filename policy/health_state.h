// SPDX-License-Identifier: BSD-3-Clause
//
// Health state: derives the state of a backend from two inputs: the result of the health checks
// (the verdict), and the state that the backend announces (the word). docs/guide/health.md contains
// the same tables; a unit test compares the tables of both files.
//
// Source: "Site Reliability Engineering" (2016), chapter 20: a lame duck can still serve requests,
// but clients should send no new requests to it.
//
// The administrative state that an operator sets (drain, maintenance) is kept separately, and does
// not affect this state.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// X(NAME, "name")
#define WEIR_HEALTH_STATES(X) \
	X(STARTING, "starting") \
	X(HEALTHY, "healthy") X(LAME_DUCK, "lame-duck") X(REFUSING, "refusing")

// Result of the health checks. X(NAME, "name", "meaning")
#define WEIR_HEALTH_VERDICTS(X) \
	X(UNKNOWN, "unknown", \
		"checks have not yet passed `rise` times, or failed `fall` times, in a row") \
	X(PASSING, "passing", \
		"`rise` checks in a row passed; fewer than `fall` in a row have failed since") \
	X(FAILING, "failing", \
		"`fall` checks in a row failed; fewer than `rise` in a row have passed since") \
	X(UNCHECKED, "unchecked", "the backend has no health check")

// The last announcement of the backend. X(NAME, "name", "meaning")
#define WEIR_HEALTH_WORDS(X) \
	X(NONE, "nothing", \
		"the backend has announced no state, or no state since its health checks failed") \
	X(STARTING, "starting", "the backend is not ready for new flows yet") \
	X(READY, "ready", "the backend accepts new flows") \
	X(LAME_DUCK, "lame-duck", "the backend accepts no new flows and serves existing flows") \
	X(DOWN, "down", "the backend serves no flows")

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

struct weir_health_facts { // inputs of one backend
	uint8_t verdict; // enum weir_health_verdict
	uint8_t word; // enum weir_health_word
};

// Returns the resulting state. Values out of range count as UNKNOWN and NONE.
enum weir_health_state weir_health_state_of(struct weir_health_facts facts);

// Returns the initial facts of a backend, made from the last state that an earlier process stored.
// The facts result in this state until the first check or announcement. checked: the service has a
// health check. Without a health check, STARTING and REFUSING become HEALTHY, because otherwise the
// backend might stay in these states forever.
struct weir_health_facts weir_health_adopt(enum weir_health_state state, bool checked);

// Sets the verdict of the checks; the same verdict as before is allowed. When the checks fail,
// removes the last announcement, because the server that sent the announcement may have exited. A
// running server repeats its announcement.
struct weir_health_facts weir_health_set_verdict(
	struct weir_health_facts facts, enum weir_health_verdict verdict);

// Sets the state that the backend announces; the same state as before is allowed. When another
// state replaces DOWN, a passing verdict becomes UNKNOWN, because the checks may have passed before
// the server was restarted. The caller must then count the checks from 0 again.
struct weir_health_facts weir_health_set_word(
	struct weir_health_facts facts, enum weir_health_word word);

// Returns whether the first of two announced states is worse. Order, from the worst: down, lame
// duck, starting, ready, nothing. Values out of range count as NONE.
bool weir_health_word_is_worse(uint8_t word, uint8_t than);

// Replaces an announcement that was not repeated in time, even DOWN, by NONE
// (weir_health_set_word). Exception: a lame duck stays a lame duck, because a missing announcement
// does not mean "ready".
struct weir_health_facts weir_health_expire(struct weir_health_facts facts);

const char *weir_health_state_name(enum weir_health_state state);
const char *weir_health_verdict_name(enum weir_health_verdict verdict);
const char *weir_health_word_name(enum weir_health_word word);
