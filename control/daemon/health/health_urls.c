// SPDX-License-Identifier: BSD-3-Clause
#include "health_urls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "append.h"

#define PATH_BYTES 40 // of a path in a detail

struct weir_health_urls {
	struct weir_config_health_check check; // with the URL urls[next - 1]; pointers are borrowed
	uint32_t next; // index of the next URL
	struct weir_report report; // of the first answer
	char detail[WEIR_HEALTH_DETAIL_BYTES]; // of the first answer
};

const struct weir_config_health_check *weir_health_urls_check(
	const struct weir_health_urls *urls, const struct weir_config_health_check *config) {
	return urls != NULL ? &urls->check : config;
}

static bool announces_state(const struct weir_report *report) {
	return report != NULL && report->word != WEIR_HEALTH_WORD_NONE &&
	       report->word != WEIR_HEALTH_WORD_READY;
}

int weir_health_urls_advance(struct weir_health_urls **urls,
	const struct weir_config_health_check *config, const char *detail,
	const struct weir_report *report) {
	struct weir_health_urls *at = *urls;

	if ((at != NULL ? at->next : 0) == config->url_count || announces_state(report)) {
		return 0;
	}
	if (at == NULL) {
		at = calloc(1, sizeof(*at));
		if (at == NULL) {
			return -ENOMEM;
		}
		at->check = *config;
		at->check.orca = false; // only the first answer can have a load report
		if (report != NULL) {
			at->report = *report;
		}
		snprintf(at->detail, sizeof(at->detail), "%s", detail);
		*urls = at;
	}
	at->check.url = config->urls[at->next++];
	return 1;
}

const struct weir_report *weir_health_urls_end(struct weir_health_urls *urls,
	enum weir_probe_outcome outcome, const struct weir_report *report,
	char detail[static WEIR_HEALTH_DETAIL_BYTES]) {
	char why[WEIR_HEALTH_DETAIL_BYTES];

	if (urls == NULL) {
		return report;
	}
	if (outcome == WEIR_PROBE_PASSED && !announces_state(report)) {
		memcpy(detail, urls->detail, WEIR_HEALTH_DETAIL_BYTES);
	} else {
		snprintf(why, sizeof(why), "%.*s: ", PATH_BYTES, urls->check.url.path);
		weir_append(why, sizeof(why), "%s", detail);
		memcpy(detail, why, sizeof(why));
	}
	if (announces_state(report)) {
		urls->report.word = report->word;
		memcpy(urls->report.why, report->why, sizeof(urls->report.why));
	}
	return report != NULL ? &urls->report : NULL;
}

void weir_health_urls_free(struct weir_health_urls **urls) {
	free(*urls);
	*urls = NULL;
}
