// SPDX-License-Identifier: BSD-3-Clause
#include "health_state.h"

enum weir_health_state weir_health_state_of(struct weir_health_facts facts) {
	static const uint8_t states[WEIR_HEALTH_VERDICT_COUNT][WEIR_HEALTH_WORD_COUNT] = {
#define ROW(verdict, none, starting, ready, lame_duck, down) \
	[WEIR_HEALTH_VERDICT_##verdict] = { \
		[WEIR_HEALTH_WORD_NONE] = WEIR_HEALTH_##none, \
		[WEIR_HEALTH_WORD_STARTING] = WEIR_HEALTH_##starting, \
		[WEIR_HEALTH_WORD_READY] = WEIR_HEALTH_##ready, \
		[WEIR_HEALTH_WORD_LAME_DUCK] = WEIR_HEALTH_##lame_duck, \
		[WEIR_HEALTH_WORD_DOWN] = WEIR_HEALTH_##down, \
	}
		// Arguments of ROW: the verdict, then the resulting state for each announcement:
		// none, starting, ready, lame duck, down.
		ROW(UNKNOWN, STARTING, STARTING, STARTING, LAME_DUCK, REFUSING),
		ROW(PASSING, HEALTHY, STARTING, HEALTHY, LAME_DUCK, REFUSING),
		ROW(FAILING, REFUSING, REFUSING, REFUSING, REFUSING, REFUSING),
		ROW(UNCHECKED, HEALTHY, STARTING, HEALTHY, LAME_DUCK, REFUSING),
#undef ROW
	};
	uint8_t verdict = facts.verdict, word = facts.word;

	if (verdict >= WEIR_HEALTH_VERDICT_COUNT) {
		verdict = WEIR_HEALTH_VERDICT_UNKNOWN;
	}
	if (word >= WEIR_HEALTH_WORD_COUNT) {
		word = WEIR_HEALTH_WORD_NONE;
	}
	return (enum weir_health_state)states[verdict][word];
}

struct weir_health_facts weir_health_adopt(enum weir_health_state state, bool checked) {
	struct weir_health_facts facts = {
		.verdict = checked ? WEIR_HEALTH_VERDICT_UNKNOWN : WEIR_HEALTH_VERDICT_UNCHECKED};

	switch (state) {
	case WEIR_HEALTH_STARTING:
		break;
	case WEIR_HEALTH_HEALTHY:
		if (checked) {
			facts.verdict = WEIR_HEALTH_VERDICT_PASSING;
		}
		break;
	case WEIR_HEALTH_LAME_DUCK:
		facts.word = WEIR_HEALTH_WORD_LAME_DUCK;
		break;
	case WEIR_HEALTH_REFUSING:
		if (checked) {
			facts.verdict = WEIR_HEALTH_VERDICT_FAILING;
		}
		break;
	}
	return facts;
}

struct weir_health_facts weir_health_set_verdict(
	struct weir_health_facts facts, enum weir_health_verdict verdict) {
	if (verdict == WEIR_HEALTH_VERDICT_FAILING &&
		facts.verdict != WEIR_HEALTH_VERDICT_FAILING) {
		facts.word = WEIR_HEALTH_WORD_NONE;
	}
	facts.verdict = (uint8_t)verdict;
	return facts;
}

struct weir_health_facts weir_health_set_word(
	struct weir_health_facts facts, enum weir_health_word word) {
	if (facts.word == WEIR_HEALTH_WORD_DOWN && word != WEIR_HEALTH_WORD_DOWN &&
		facts.verdict == WEIR_HEALTH_VERDICT_PASSING) {
		facts.verdict = WEIR_HEALTH_VERDICT_UNKNOWN;
	}
	facts.word = (uint8_t)word;
	return facts;
}

bool weir_health_word_is_worse(uint8_t word, uint8_t than) {
	static const uint8_t ranks[WEIR_HEALTH_WORD_COUNT] = {
		[WEIR_HEALTH_WORD_NONE] = 0,
		[WEIR_HEALTH_WORD_READY] = 1,
		[WEIR_HEALTH_WORD_STARTING] = 2,
		[WEIR_HEALTH_WORD_LAME_DUCK] = 3,
		[WEIR_HEALTH_WORD_DOWN] = 4,
	};

	return ranks[word < WEIR_HEALTH_WORD_COUNT ? word : WEIR_HEALTH_WORD_NONE] >
	       ranks[than < WEIR_HEALTH_WORD_COUNT ? than : WEIR_HEALTH_WORD_NONE];
}

struct weir_health_facts weir_health_expire(struct weir_health_facts facts) {
	return facts.word == WEIR_HEALTH_WORD_LAME_DUCK
		       ? facts
		       : weir_health_set_word(facts, WEIR_HEALTH_WORD_NONE);
}

const char *weir_health_state_name(enum weir_health_state state) {
	static const char *const names[] = {
#define X(name, key) [WEIR_HEALTH_##name] = key,
		WEIR_HEALTH_STATES(X)
#undef X
	};

	return names[state];
}

const char *weir_health_verdict_name(enum weir_health_verdict verdict) {
	static const char *const names[] = {
#define X(name, key, meaning) [WEIR_HEALTH_VERDICT_##name] = key,
		WEIR_HEALTH_VERDICTS(X)
#undef X
	};

	return names[verdict];
}

const char *weir_health_word_name(enum weir_health_word word) {
	static const char *const names[] = {
#define X(name, key, meaning) [WEIR_HEALTH_WORD_##name] = key,
		WEIR_HEALTH_WORDS(X)
#undef X
	};

	return names[word];
}
