// SPDX-License-Identifier: BSD-3-Clause
//
// Health states. Facts are the verdict of the health checks and the last announcement of the
// backend. Tests the state of each pair of facts, the effect of each event in each state, and the
// tables of docs/guide/health.md.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health_state.h"
#include "test.h"

#define VERDICTS WEIR_HEALTH_VERDICT_COUNT
#define WORDS WEIR_HEALTH_WORD_COUNT

TEST_ARGUMENT(document_path); // path of docs/guide/health.md
static char *document;

static struct weir_health_facts facts_of(unsigned int verdict, unsigned int word) {
	return (struct weir_health_facts){.verdict = (uint8_t)verdict, .word = (uint8_t)word};
}

static void assert_facts(struct weir_health_facts facts, unsigned int verdict, unsigned int word) {
	assert_int_equal(facts.verdict, verdict);
	assert_int_equal(facts.word, word);
}

// Written by hand, not copied from the tested table.
static enum weir_health_state expected(unsigned int verdict, unsigned int word) {
	if (verdict == WEIR_HEALTH_VERDICT_FAILING || word == WEIR_HEALTH_WORD_DOWN) {
		return WEIR_HEALTH_REFUSING;
	}
	if (word == WEIR_HEALTH_WORD_LAME_DUCK) {
		return WEIR_HEALTH_LAME_DUCK;
	}
	if (word == WEIR_HEALTH_WORD_STARTING) {
		return WEIR_HEALTH_STARTING;
	}
	if (verdict == WEIR_HEALTH_VERDICT_UNKNOWN) {
		return WEIR_HEALTH_STARTING;
	}
	return WEIR_HEALTH_HEALTHY;
}

TEST(every_pair_has_its_state) {
	for (unsigned int v = 0; v < VERDICTS; v++) {
		for (unsigned int w = 0; w < WORDS; w++) {
			assert_int_equal(weir_health_state_of(facts_of(v, w)), expected(v, w));
		}
	}
	// Values out of range, as from corrupt memory.
	assert_int_equal(weir_health_state_of(facts_of(VERDICTS, 255)), WEIR_HEALTH_STARTING);
}

TEST(every_verdict_in_every_pair) {
	for (unsigned int v = 0; v < VERDICTS; v++) {
		for (unsigned int w = 0; w < WORDS; w++) {
			for (unsigned int next = 0; next < VERDICTS; next++) {
				bool fell = next == WEIR_HEALTH_VERDICT_FAILING && v != next;
				struct weir_health_facts facts = weir_health_set_verdict(
					facts_of(v, w), (enum weir_health_verdict)next);

				assert_facts(facts, next, fell ? WEIR_HEALTH_WORD_NONE : w);
				// A repeated verdict changes nothing.
				facts = weir_health_set_verdict(
					facts, (enum weir_health_verdict)next);
				assert_facts(facts, next, fell ? WEIR_HEALTH_WORD_NONE : w);
			}
		}
	}
}

TEST(every_word_in_every_pair) {
	for (unsigned int v = 0; v < VERDICTS; v++) {
		for (unsigned int w = 0; w < WORDS; w++) {
			bool was_down =
				v == WEIR_HEALTH_VERDICT_PASSING && w == WEIR_HEALTH_WORD_DOWN;
			unsigned int after = was_down ? WEIR_HEALTH_VERDICT_UNKNOWN : v;
			struct weir_health_facts facts;

			for (unsigned int next = 0; next < WORDS; next++) {
				unsigned int verdict = next == WEIR_HEALTH_WORD_DOWN ? v : after;

				facts = weir_health_set_word(
					facts_of(v, w), (enum weir_health_word)next);
				assert_facts(facts, verdict, next);
				facts = weir_health_set_word(facts, (enum weir_health_word)next);
				assert_facts(facts, verdict, next);
			}
			facts = weir_health_expire(facts_of(v, w));
			assert_facts(facts, after,
				w == WEIR_HEALTH_WORD_LAME_DUCK ? w : WEIR_HEALTH_WORD_NONE);
		}
	}
}

// The server was started again between two checks, and no check has failed.
TEST(end_of_down_waits_for_checks) {
	struct weir_health_facts facts =
		facts_of(WEIR_HEALTH_VERDICT_PASSING, WEIR_HEALTH_WORD_DOWN);

	facts = weir_health_set_word(facts, WEIR_HEALTH_WORD_READY);
	assert_int_equal(weir_health_state_of(facts), WEIR_HEALTH_STARTING);
	facts = weir_health_set_verdict(facts, WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(weir_health_state_of(facts), WEIR_HEALTH_HEALTHY);
	facts = facts_of(WEIR_HEALTH_VERDICT_UNCHECKED, WEIR_HEALTH_WORD_DOWN);
	facts = weir_health_set_word(facts, WEIR_HEALTH_WORD_READY);
	assert_int_equal(weir_health_state_of(facts), WEIR_HEALTH_HEALTHY);
}

TEST(every_pair_of_words_has_a_worse_one) {
	static const uint8_t from_best[] = {WEIR_HEALTH_WORD_NONE, WEIR_HEALTH_WORD_READY,
		WEIR_HEALTH_WORD_STARTING, WEIR_HEALTH_WORD_LAME_DUCK, WEIR_HEALTH_WORD_DOWN};

	assert_int_equal(sizeof(from_best), WORDS);
	for (unsigned int i = 0; i < WORDS; i++) {
		for (unsigned int j = 0; j < WORDS; j++) {
			assert_int_equal(
				weir_health_word_is_worse(from_best[i], from_best[j]), i > j);
		}
		assert_int_equal(weir_health_word_is_worse(from_best[i], 255), i > 0);
		assert_false(weir_health_word_is_worse(255, from_best[i]));
	}
}

TEST(lame_duck_ends_by_ready_or_by_refusing_and_recovering) {
	struct weir_health_facts facts =
		facts_of(WEIR_HEALTH_VERDICT_PASSING, WEIR_HEALTH_WORD_LAME_DUCK);

	facts = weir_health_set_verdict(facts, WEIR_HEALTH_VERDICT_PASSING);
	facts = weir_health_expire(facts);
	// simulates a restart of control
	facts = weir_health_adopt(weir_health_state_of(facts), true);
	facts = weir_health_set_verdict(facts, WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(weir_health_state_of(facts), WEIR_HEALTH_LAME_DUCK);
	assert_int_equal(weir_health_state_of(weir_health_set_word(facts, WEIR_HEALTH_WORD_READY)),
		WEIR_HEALTH_HEALTHY);
	facts = weir_health_set_verdict(facts, WEIR_HEALTH_VERDICT_FAILING);
	assert_int_equal(weir_health_state_of(facts), WEIR_HEALTH_REFUSING);
	assert_int_equal(
		weir_health_state_of(weir_health_set_verdict(facts, WEIR_HEALTH_VERDICT_PASSING)),
		WEIR_HEALTH_HEALTHY);
	// If the agent announces lame-duck again before the checks pass, the backend changes from
	// refusing to lame-duck, and takes no new flows in between.
	facts = weir_health_set_word(facts, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(weir_health_state_of(facts), WEIR_HEALTH_REFUSING);
	assert_int_equal(
		weir_health_state_of(weir_health_set_verdict(facts, WEIR_HEALTH_VERDICT_PASSING)),
		WEIR_HEALTH_LAME_DUCK);
}

TEST(adopted_state_is_kept) {
	for (int s = WEIR_HEALTH_STARTING; s <= WEIR_HEALTH_REFUSING; s++) {
		bool lame = s == WEIR_HEALTH_LAME_DUCK;

		assert_int_equal(
			weir_health_state_of(weir_health_adopt((enum weir_health_state)s, true)),
			s);
		assert_int_equal(
			weir_health_state_of(weir_health_adopt((enum weir_health_state)s, false)),
			lame ? WEIR_HEALTH_LAME_DUCK : WEIR_HEALTH_HEALTHY);
	}
}

static void assert_documented(const char *line) {
	if (strstr(document, line) == NULL) {
		fail_msg("docs/guide/health.md lacks the line %s", line);
	}
}

// The document has a line such as "| passing | healthy | starting | ... |" for each verdict: the
// verdict, then the resulting state for each announcement (enum weir_health_word).
TEST(tables_of_the_document_equal_the_code) {
	char line[256], part[64];

	for (unsigned int v = 0; v < VERDICTS; v++) {
		snprintf(line, sizeof(line), "\n| %s |",
			weir_health_verdict_name((enum weir_health_verdict)v));
		for (unsigned int w = 0; w < WORDS; w++) {
			snprintf(part, sizeof(part), " %s |",
				weir_health_state_name(weir_health_state_of(facts_of(v, w))));
			strncat(line, part, sizeof(line) - strlen(line) - 1);
		}
		strncat(line, "\n", sizeof(line) - strlen(line) - 1);
		assert_documented(line);
	}
	snprintf(line, sizeof(line), "\n| checks |");
	for (unsigned int w = 0; w < WORDS; w++) {
		snprintf(part, sizeof(part), " %s |",
			weir_health_word_name((enum weir_health_word)w));
		strncat(line, part, sizeof(line) - strlen(line) - 1);
	}
	assert_documented(line);
#define X(name, key, meaning) assert_documented("\n| " key " | " meaning " |\n");
	WEIR_HEALTH_VERDICTS(X)
	WEIR_HEALTH_WORDS(X)
#undef X
}

static int read_document(__attribute__((unused)) void **state) {
	FILE *file = fopen(document_path, "r");

	document = calloc(1, 65536);
	if (file == NULL || document == NULL || fread(document, 1, 65535, file) == 0) {
		perror(document_path);
		return -1;
	}
	return fclose(file);
}

static int free_document(__attribute__((unused)) void **state) {
	free(document);
	return 0;
}

TEST_GROUP(read_document, free_document);
