// SPDX-License-Identifier: BSD-3-Clause
#include "findings.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "plural.h"
#include "terminal.h"

static const char *const level_names[] = {
#define X(name, text) [WEIR_FINDING_##name] = text,
	WEIR_FINDING_LEVELS(X)
#undef X
};

void weir_findings_fini(struct weir_findings *findings) {
	free(findings->list);
	*findings = (struct weir_findings){0};
}

void weir_findings_add(struct weir_findings *findings, enum weir_finding_level level,
	const char *subject, const char *format, ...) {
	struct weir_finding *finding;
	va_list args;

	if (findings->count == findings->room) {
		uint32_t room = findings->room > 0 ? findings->room * 2 : 32;
		struct weir_finding *list = realloc(findings->list, room * sizeof(*list));

		if (list == NULL) {
			findings->out_of_memory = true;
			return;
		}
		findings->list = list;
		findings->room = room;
	}
	finding = &findings->list[findings->count++];
	finding->level = level;
	finding->check = findings->check;
	finding->cure[0] = '\0';
	snprintf(finding->subject, sizeof(finding->subject), "%s", subject);
	va_start(args, format);
	vsnprintf(finding->found, sizeof(finding->found), format, args);
	va_end(args);
}

void weir_findings_cure(struct weir_findings *findings, const char *format, ...) {
	struct weir_finding *finding;
	va_list args;

	if (findings->count == 0 || findings->out_of_memory) {
		return;
	}
	finding = &findings->list[findings->count - 1];
	va_start(args, format);
	vsnprintf(finding->cure, sizeof(finding->cure), format, args);
	va_end(args);
}

// Returns whether two texts are equal if numbers and durations such as "1m02s" are ignored.
static bool are_alike(const char *a, const char *b) {
	static const char number[] = "0123456789.hms";

	while (*a != '\0' && *b != '\0') {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			a += strspn(a, number);
			b += strspn(b, number);
		} else if (*a++ != *b++) {
			return false;
		}
	}
	return *a == *b;
}

static bool are_one(const struct weir_finding *a, const struct weir_finding *b) {
	return a->level == b->level && a->cure[0] != '\0' && strcmp(a->cure, b->cure) == 0 &&
	       are_alike(a->found, b->found);
}

// Adds the subjects of merged findings to the text of a finding: as many names as fit, and the
// number of the remaining subjects. is_other: true for each of the `count` elements of `others`
// that is merged.
static void name_others(struct weir_finding *finding, const struct weir_finding *others,
	const bool *is_other, uint32_t count) {
	const size_t room = sizeof(finding->found) - sizeof(", and 4294967295 more");
	uint32_t named = 0, left = 0;

	for (uint32_t i = 0; i < count; i++) {
		const size_t used = strlen(finding->found);

		if (!is_other[i]) {
			continue;
		}
		if (left > 0 || used + strlen(others[i].subject) + strlen("; also: ") > room) {
			left++;
			continue;
		}
		snprintf(finding->found + used, sizeof(finding->found) - used, "%s%s",
			named++ > 0 ? ", " : "; also: ", others[i].subject);
	}
	if (left > 0) {
		const size_t used = strlen(finding->found);

		snprintf(finding->found + used, sizeof(finding->found) - used, "%s%u more",
			named > 0 ? ", and " : "; also: ", left);
	}
}

void weir_findings_group(struct weir_findings *findings, uint32_t first) {
	bool *is_other = calloc(findings->count + 1, sizeof(*is_other));

	if (is_other == NULL) {
		return; // out of memory: findings are repeated, but correct
	}
	for (uint32_t i = first; i + 1 < findings->count; i++) {
		struct weir_finding *finding = &findings->list[i];
		uint32_t left = i + 1, others = 0;

		for (uint32_t k = i + 1; k < findings->count; k++) {
			is_other[k] = are_one(finding, &findings->list[k]);
			others += is_other[k];
		}
		if (others == 0) {
			continue;
		}
		name_others(finding, finding + 1, is_other + i + 1, findings->count - i - 1);
		for (uint32_t k = i + 1; k < findings->count; k++) {
			if (!is_other[k]) {
				findings->list[left++] = findings->list[k];
			}
		}
		findings->count = left;
	}
	free(is_other);
}

struct kind { // findings with the same level and the same text, apart from words with digits
	uint32_t at; // index of the first one
	uint32_t count;
};

// Returns whether a word is an address, a number, or another word that has a digit.
static bool has_digit(const char *word, size_t length) {
	for (size_t i = 0; i < length; i++) {
		if (isdigit((unsigned char)word[i])) {
			return true;
		}
	}
	return false;
}

static bool are_one_kind(const struct weir_finding *one, const struct weir_finding *other) {
	const char *a = one->found, *b = other->found;

	if (one->level != other->level) {
		return false;
	}
	while (*a != '\0' && *b != '\0') {
		const size_t a_length = strcspn(a, " "), b_length = strcspn(b, " ");

		if ((a_length != b_length || memcmp(a, b, a_length) != 0) &&
			!(has_digit(a, a_length) && has_digit(b, b_length))) {
			return false;
		}
		a += a_length + (a[a_length] == ' ');
		b += b_length + (b[b_length] == ' ');
	}
	return *a == *b;
}

// Returns the kind of a finding. Adds the kind if there is none yet.
static struct kind *kind_of(const struct weir_findings *findings, uint32_t finding,
	struct kind *kinds, uint32_t *count) {
	for (uint32_t i = 0; i < *count; i++) {
		if (are_one_kind(&findings->list[kinds[i].at], &findings->list[finding])) {
			return &kinds[i];
		}
	}
	kinds[*count] = (struct kind){.at = finding};
	return &kinds[(*count)++];
}

void weir_findings_limit(struct weir_findings *findings, uint32_t first) {
	struct kind *kinds = calloc(findings->count + 1, sizeof(*kinds));
	uint32_t count = 0, left = first;

	if (kinds == NULL) {
		return; // out of memory: there are many findings, but they are correct
	}
	for (uint32_t i = first; i < findings->count; i++) {
		const bool bad = findings->list[i].level != WEIR_FINDING_OK;
		struct kind *kind = bad ? kind_of(findings, i, kinds, &count) : NULL;

		if (kind == NULL || ++kind->count <= WEIR_FINDINGS_ALIKE) {
			if (kind != NULL && kind->count == 1) {
				kind->at = left;
			}
			findings->list[left++] = findings->list[i];
		}
	}
	findings->count = left;
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_finding alike = findings->list[kinds[i].at];

		if (kinds[i].count > WEIR_FINDINGS_ALIKE) {
			weir_findings_add(findings, alike.level, findings->check,
				"%u more like that of %s", kinds[i].count - WEIR_FINDINGS_ALIKE,
				alike.subject);
		}
	}
	free(kinds);
}

enum weir_finding_level weir_findings_worst(const struct weir_findings *findings) {
	enum weir_finding_level worst = WEIR_FINDING_OK;

	for (uint32_t i = 0; i < findings->count; i++) {
		worst = findings->list[i].level > worst ? findings->list[i].level : worst;
	}
	return worst;
}

int weir_findings_exit(const struct weir_findings *findings) {
	enum weir_finding_level worst = weir_findings_worst(findings);

	return worst == WEIR_FINDING_FAULT || findings->out_of_memory
		       ? 2
		       : worst == WEIR_FINDING_WARNING;
}

static int shown_width(const char *text) {
	char shown[512];

	return (int)strlen(weir_terminal_text(text, shown, sizeof(shown)));
}

void weir_findings_print(const struct weir_findings *findings, FILE *out) {
	uint32_t counts[WEIR_FINDING_LEVEL_COUNT] = {0};
	int check = (int)strlen("CHECK"), subject = (int)strlen("SUBJECT");
	char text[704], other[704];

	for (uint32_t i = 0; i < findings->count; i++) {
		const struct weir_finding *finding = &findings->list[i];
		int width = shown_width(finding->subject);

		check = (int)strlen(finding->check) > check ? (int)strlen(finding->check) : check;
		subject = width > subject ? width : subject;
		counts[finding->level]++;
	}
	fprintf(out, "%-7s  %-*s  %-*s  FOUND\n", "LEVEL", check, "CHECK", subject, "SUBJECT");
	for (uint32_t i = 0; i < findings->count; i++) {
		const struct weir_finding *finding = &findings->list[i];

		fprintf(out, "%-7s  %-*s  %-*s  %s\n", level_names[finding->level], check,
			finding->check, subject,
			weir_terminal_text(finding->subject, other, sizeof(other)),
			weir_terminal_text(finding->found, text, sizeof(text)));
		if (finding->cure[0]) {
			fprintf(out, "         $ %s\n",
				weir_terminal_text(finding->cure, text, sizeof(text)));
		}
	}
	fprintf(out, "%u fault%s, %u warning%s, %u notice%s, %u ok\n", counts[WEIR_FINDING_FAULT],
		weir_plural(counts[WEIR_FINDING_FAULT]), counts[WEIR_FINDING_WARNING],
		weir_plural(counts[WEIR_FINDING_WARNING]), counts[WEIR_FINDING_NOTICE],
		weir_plural(counts[WEIR_FINDING_NOTICE]), counts[WEIR_FINDING_OK]);
}

// If the text is not UTF-8, json_string fails; the text is then escaped, as for a terminal.
static json_t *json_text(const char *text) {
	json_t *json = json_string(text);
	char shown[704];

	return json != NULL ? json : json_string(weir_terminal_text(text, shown, sizeof(shown)));
}

json_t *weir_findings_json(struct weir_findings *findings) {
	json_t *list = json_array(), *json;

	for (uint32_t i = 0; i < findings->count; i++) {
		const struct weir_finding *finding = &findings->list[i];
		json_t *object = json_pack("{s:s, s:s, s:o, s:o, s:o}", "level",
			level_names[finding->level], "check", finding->check, "subject",
			json_text(finding->subject), "found", json_text(finding->found), "cure",
			finding->cure[0] ? json_text(finding->cure) : json_null());

		if (json_array_append_new(list, object) < 0) {
			json_decref(list);
			list = NULL;
		}
	}
	json = json_pack("{s:s, s:o}", "worst", level_names[weir_findings_worst(findings)],
		"findings", list);
	findings->out_of_memory |= json == NULL;
	return json;
}
