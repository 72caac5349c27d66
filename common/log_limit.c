// SPDX-License-Identifier: BSD-3-Clause
#include "log_limit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "plural.h"

#define REPEATS 64 // maximum number of different lines counted at the same time; a power of two
#define REPEAT_TEXT_BYTES 160

struct repeat { // a line seen recently
	uint64_t hash; // 0 = unused entry
	uint64_t since_ms;
	unsigned int seen;
	enum weir_log_level level;
	char text[REPEAT_TEXT_BYTES]; // beginning of the line, for the summary
};

struct weir_log_limit {
	struct weir_log *log;
	uint64_t (*clock_ms)(void);
	pthread_mutex_t lock; // protects `repeat`
	struct repeat repeat[REPEATS];
};

static void report(struct weir_log_limit *limit, struct repeat *repeat) {
	char text[REPEAT_TEXT_BYTES + 64];

	if (repeat->hash != 0 && repeat->seen > WEIR_LOG_BURST) {
		snprintf(text, sizeof(text),
			"%s (%u similar message%s suppressed in the last %u s)", repeat->text,
			repeat->seen - WEIR_LOG_BURST, weir_plural(repeat->seen - WEIR_LOG_BURST),
			(unsigned int)((limit->clock_ms() - repeat->since_ms + 500) / 1000));
		weir_log_emit(limit->log, repeat->level, NULL, text);
	}
	repeat->hash = 0;
}

// Returns the hash of a line and its level (FNV-1a). Never 0.
static uint64_t hash_text(const char *text, enum weir_log_level level) {
	uint64_t hash = 0xcbf29ce484222325u ^ level;

	for (; *text != '\0'; text++) {
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	}
	return (hash ^ hash >> 32) | 1;
}

static bool count(struct weir_log_limit *limit, enum weir_log_level level, const char *text) {
	uint64_t hash = hash_text(text, level);
	struct repeat *repeat = &limit->repeat[(hash >> 1) % REPEATS];
	uint64_t now = limit->clock_ms();

	if (repeat->hash != hash || now - repeat->since_ms >= WEIR_LOG_WINDOW_MS) {
		report(limit, repeat);
		repeat->hash = hash;
		repeat->since_ms = now;
		repeat->seen = 0;
		repeat->level = level;
		snprintf(repeat->text, sizeof(repeat->text), "%s", text);
	}
	repeat->seen++;
	return repeat->seen <= WEIR_LOG_BURST;
}

static bool admit(void *context, enum weir_log_level level, const char *text) {
	struct weir_log_limit *limit = context;
	bool admitted;

	pthread_mutex_lock(&limit->lock);
	admitted = count(limit, level, text);
	pthread_mutex_unlock(&limit->lock);
	return admitted;
}

int weir_log_limit_create(
	struct weir_log *log, uint64_t (*clock_ms)(void), struct weir_log_limit **ret) {
	struct weir_log_limit *limit = calloc(1, sizeof(*limit));

	if (limit == NULL) {
		return -ENOMEM;
	}
	pthread_mutex_init(&limit->lock, NULL);
	limit->log = log;
	limit->clock_ms = clock_ms != NULL ? clock_ms : weir_monotonic_ms;
	log->filter = admit;
	log->filter_context = limit;
	*ret = limit;
	return 0;
}

void weir_log_limit_tick(struct weir_log_limit *limit) {
	uint64_t now;

	pthread_mutex_lock(&limit->lock);
	now = limit->clock_ms(); // not before a window that another thread begins meanwhile
	for (unsigned int i = 0; i < REPEATS; i++) {
		if (limit->repeat[i].hash != 0 &&
			now - limit->repeat[i].since_ms >= WEIR_LOG_WINDOW_MS) {
			report(limit, &limit->repeat[i]);
		}
	}
	pthread_mutex_unlock(&limit->lock);
}

void weir_log_limit_free(struct weir_log_limit *limit) {
	if (limit == NULL) {
		return;
	}
	for (unsigned int i = 0; i < REPEATS; i++) {
		report(limit, &limit->repeat[i]);
	}
	limit->log->filter = NULL;
	limit->log->filter_context = NULL;
	pthread_mutex_destroy(&limit->lock);
	free(limit);
}
