// SPDX-License-Identifier: BSD-3-Clause
#include "health_reported.h"

// A passing answer without a state withdraws the announced state: the report then has the state
// "ready".
static void apply_word(
	struct weir_health_reported *reported, bool passed, struct weir_report *report) {
	const uint8_t before = reported->word;

	if (report->word != WEIR_HEALTH_WORD_NONE) {
		reported->word = report->word;
		return;
	}
	if (!passed) {
		return;
	}
	reported->word = WEIR_HEALTH_WORD_NONE;
	if (before != WEIR_HEALTH_WORD_NONE && before != WEIR_HEALTH_WORD_READY) {
		static const char why[] = "answer has no X-Weir-State header";

		report->word = WEIR_HEALTH_WORD_READY;
		if (report->why[0] == '\0') { // not empty: the header has an unknown state
			weir_report_set_why(report, why, sizeof(why) - 1);
		}
	}
}

bool weir_health_reported_apply(struct weir_health_reported *reported, enum weir_config_check type,
	bool passed, struct weir_report *report) {
	if (type == WEIR_CHECK_EXEC) {
		const bool before = reported->weight;

		reported->weight = report->given != 0;
		return before || reported->weight;
	}
	if (type != WEIR_CHECK_AGENT_CHECK) { // agent_check.h handles the words of an agent-check
		apply_word(reported, passed, report);
	}
	return report->given != 0 || report->word != WEIR_HEALTH_WORD_NONE;
}
