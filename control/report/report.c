// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <math.h>
#include <netinet/in.h>
#include <string.h>

#include "health_state.h"

#define HAPROXY_WEIGHT_MOST 256.0

_Static_assert(WEIR_REPORT_FIELD_COUNT < 32, "`given` must have a bit for each field");
_Static_assert(sizeof(struct weir_port_word) == 4,
	"struct weir_port_word must have no padding, because datagrams have none");

static const struct {
	const char *name;
	double largest;
	size_t offset;
} fields[] = {
#define X(name, field, most) \
	[WEIR_REPORT_BIT_##name] = {#field, most, offsetof(struct weir_report, field)},
	WEIR_REPORT_FIELDS(X)
#undef X
};

const char *weir_report_field_name(enum weir_report_field field) {
	return fields[field].name;
}

double weir_report_field_largest(enum weir_report_field field) {
	return fields[field].largest;
}

static double *field_of(struct weir_report *report, enum weir_report_field field) {
	void *place = (char *)report + fields[field].offset;

	return place;
}

double weir_report_value(const struct weir_report *report, enum weir_report_field field) {
	const void *place = (const char *)report + fields[field].offset;

	return *(const double *)place;
}

static bool is_possible(enum weir_report_field field, double value) {
	return isfinite(value) && value >= 0 && value <= fields[field].largest;
}

bool weir_report_set(struct weir_report *report, enum weir_report_field field, double value) {
	if (!is_possible(field, value)) {
		return false;
	}
	*field_of(report, field) = value;
	report->given |= 1u << field;
	return true;
}

double weir_report_weight(const struct weir_report *report, double configured) {
	double most = configured > HAPROXY_WEIGHT_MOST ? configured : HAPROXY_WEIGHT_MOST;

	if ((report->given & WEIR_REPORT(WEIGHT)) != 0) {
		return report->weight;
	}
	if ((report->given & WEIR_REPORT(WEIGHT_PERCENT)) != 0) {
		return fmin(configured * report->weight_percent / 100, most);
	}
	return configured;
}

const char *weir_port_reason_text(uint8_t reason) {
	static const char *const texts[] = {
#define X(name, text) [WEIR_PORT_REASON_##name] = text,
		WEIR_PORT_REASONS(X)
#undef X
	};

	return reason < sizeof(texts) / sizeof(texts[0]) ? texts[reason] : "";
}

bool weir_port_words_are_valid(const struct weir_port_word *words, uint32_t count) {
	if (count > WEIR_PORT_WORDS_MOST) {
		return false;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_port_word *word = &words[i];

		if (word->port == 0 || word->word == WEIR_HEALTH_WORD_NONE ||
			word->word >= WEIR_HEALTH_WORD_COUNT ||
			(word->protocol != IPPROTO_TCP && word->protocol != IPPROTO_UDP)) {
			return false;
		}
		for (uint32_t before = 0; before < i; before++) {
			if (words[before].port == word->port &&
				words[before].protocol == word->protocol) {
				return false;
			}
		}
	}
	return true;
}

void weir_report_set_why(struct weir_report *report, const char *text, size_t bytes) {
	size_t n = bytes < sizeof(report->why) ? bytes : sizeof(report->why) - 1;

	memset(report->why, 0, sizeof(report->why));
	for (size_t i = 0; i < n && text[i] != '\0'; i++) {
		report->why[i] = text[i];
		if (text[i] < ' ' || text[i] > '~') {
			report->why[i] = '?';
		}
	}
}

uint32_t weir_report_check(struct weir_report *report) {
	uint32_t before = report->given;
	char why[sizeof(report->why)];

	report->given &= WEIR_REPORT_ALL;
	for (uint32_t field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		if (!is_possible(field, weir_report_value(report, field))) {
			report->given &= ~(1u << field);
		}
		if ((report->given >> field & 1) == 0) {
			*field_of(report, field) = 0;
		}
	}
	if (report->word >= WEIR_HEALTH_WORD_COUNT) {
		report->word = WEIR_HEALTH_WORD_NONE;
	}
	if (!weir_port_words_are_valid(report->port_words, report->port_word_count)) {
		report->port_word_count = 0;
	}
	memcpy(why, report->why, sizeof(why));
	weir_report_set_why(report, why, sizeof(why));
	return before & ~report->given;
}
