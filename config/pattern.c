// SPDX-License-Identifier: BSD-3-Clause
#include "pattern.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define LIMIT_NS 5000000 // CPU time of a search
#define ITEMS 16u // number of items of the pattern between two checks of the CPU time
#define BRANCHES_MOST 100000u // match limit of PCRE2: about 2 ms
#define HEAP_KIB 1024u // memory for the positions to which the search may return

struct search {
	int64_t until_ns;
	int64_t tick_ns; // coarse clock at the last check of the CPU time
	uint32_t items; // number of items of the pattern that were tried
};

static int64_t read_ns(clockid_t clock) {
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t cpu_ns(void) {
	return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

// pcre2_set_match_limit does not limit the time: an item such as \w+ may read all of the data each
// time it is tried. Therefore PCRE2 calls check_time before each item.
static pcre2_code *compile(const char *pattern, int *error, size_t *at) {
	return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
		PCRE2_NEVER_UTF | PCRE2_AUTO_CALLOUT, error, at, NULL);
}

// Checks the CPU time after every ITEMS items, because reading the CPU time needs a system call.
// Also checks at the next tick of the coarse clock, because one item, such as a class of many
// properties, may take more than 2 ms.
static int check_time(pcre2_callout_block *block, void *context) {
	struct search *search = context;
	const int64_t tick_ns = read_ns(CLOCK_MONOTONIC_COARSE);

	(void)block;
	if (++search->items % ITEMS != 0 && tick_ns == search->tick_ns) {
		return 0;
	}
	search->tick_ns = tick_ns;
	return cpu_ns() > search->until_ns ? PCRE2_ERROR_MATCHLIMIT : 0;
}

int weir_pattern_check(const char *pattern, char why[WEIR_PATTERN_WHY_BYTES]) {
	PCRE2_UCHAR text[WEIR_PATTERN_WHY_BYTES - 32] = "";
	size_t at = 0;
	int error = 0;
	pcre2_code *code = compile(pattern, &error, &at);

	if (code != NULL) {
		pcre2_code_free(code);
		return 0;
	}
	(void)pcre2_get_error_message(error, text, sizeof(text));
	snprintf(why, WEIR_PATTERN_WHY_BYTES, "%s at character %zu", (const char *)text, at + 1);
	return error == PCRE2_ERROR_NOMEMORY ? -ENOMEM : -EINVAL;
}

static int search(const pcre2_code *code, const void *data, size_t bytes) {
	pcre2_match_context *limits = pcre2_match_context_create(NULL);
	pcre2_match_data *match = pcre2_match_data_create(1, NULL);
	struct search search = {
		.until_ns = cpu_ns() + LIMIT_NS, .tick_ns = read_ns(CLOCK_MONOTONIC_COARSE)};
	int r = PCRE2_ERROR_NOMEMORY;

	if (limits != NULL && match != NULL) {
		pcre2_set_callout(limits, check_time, &search);
		pcre2_set_match_limit(limits, BRANCHES_MOST);
		pcre2_set_heap_limit(limits, HEAP_KIB);
		r = pcre2_match(code, data, bytes, 0, 0, match, limits);
	}
	pcre2_match_data_free(match);
	pcre2_match_context_free(limits);
	return r >= 0                      ? 1
	       : r == PCRE2_ERROR_NOMATCH  ? 0
	       : r == PCRE2_ERROR_NOMEMORY ? -ENOMEM
					   : -E2BIG;
}

int weir_pattern_search(const char *pattern, const void *data, size_t bytes) {
	size_t at;
	int error, r;
	pcre2_code *code = compile(pattern, &error, &at);

	if (code == NULL) {
		return -ENOMEM;
	}
	r = search(code, data, bytes);
	pcre2_code_free(code);
	return r;
}
