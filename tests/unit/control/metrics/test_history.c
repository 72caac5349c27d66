// SPDX-License-Identifier: BSD-3-Clause
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history_file.h"
#include "test.h"

struct folder {
	char path[64], file[96];
	char why[320];
};

static int setup(void **state) {
	struct folder *folder = calloc(1, sizeof(*folder));

	assert_non_null(folder);
	snprintf(folder->path, sizeof(folder->path), "/tmp/weir-history-XXXXXX");
	assert_non_null(mkdtemp(folder->path));
	snprintf(folder->file, sizeof(folder->file), "%s/history.json", folder->path);
	*state = folder;
	return 0;
}

static int teardown(void **state) {
	struct folder *folder = *state;

	unlink(folder->file);
	rmdir(folder->path);
	free(folder);
	return 0;
}

TEST_EACH(setup, teardown);

static json_t *workers(int first, int second) {
	return json_pack("[{s:i, s:i, s:i}, {s:i, s:i}]", "rx_packets", first, "flows", 1,
		"handed_over", 4, "rx_packets", second, "flows", 2);
}

static const json_t *samples(const json_t *json, enum weir_history_ring ring) {
	return json_object_get(json_array_get(json_object_get(json, "rings"), ring), "samples");
}

static json_int_t value(const json_t *json, size_t sample, size_t column) {
	return json_integer_value(
		json_array_get(json_array_get(samples(json, WEIR_HISTORY_RECENT), sample), column));
}

TEST(history_sums_workers_and_keeps_gaps) {
	struct weir_history history = {.next_start = 0};
	json_t *two = workers(10, 20), *json;

	weir_history_add(&history, 1000, two);
	weir_history_add(&history, 2000, NULL);
	json = weir_history_json(&history);
	assert_string_equal(json_string_value(json_array_get(json_object_get(json, "columns"), 1)),
		"rx_packets");
	assert_int_equal(value(json, 0, 0), 1000);
	// 30 packets, minus 4 that were handed over to the second worker
	assert_int_equal(value(json, 0, 1), 26);
	assert_int_equal(value(json, 0, 5), 3);
	assert_int_equal(value(json, 1, 0), 2000);
	assert_int_equal(json_array_size(json_array_get(samples(json, WEIR_HISTORY_RECENT), 1)), 1);
	json_decref(json);
	json_decref(two);
}

TEST(history_drops_the_oldest) {
	struct weir_history history = {.next_start = 0};
	json_t *json;

	for (unsigned int i = 0; i < WEIR_HISTORY_SAMPLES + 7; i++) {
		weir_history_add(&history, i, NULL);
	}
	json = weir_history_json(&history);
	assert_int_equal(json_array_size(samples(json, WEIR_HISTORY_RECENT)), WEIR_HISTORY_SAMPLES);
	assert_int_equal(value(json, 0, 0), 7);
	assert_int_equal(value(json, WEIR_HISTORY_SAMPLES - 1, 0), WEIR_HISTORY_SAMPLES + 6);
	json_decref(json);
}

static void note(struct weir_history *history, int control, int dataplane) {
	json_t *figures = json_pack("{s:{s:i}, s:{s:i}}", "control", "started_ms", control,
		"dataplane", "started_ms", dataplane);

	weir_history_note_starts(history, figures);
	json_decref(figures);
}

static long left; // allocations of jansson before one that fails

static void *allocate(size_t bytes) {
	return left-- != 0 ? malloc(bytes) : NULL;
}

TEST(history_is_complete_or_out_of_memory) {
	struct weir_history history = {.next_start = 0};
	json_t *of_workers = workers(10, 20), *whole, *json = NULL;

	weir_history_add(&history, 1000, of_workers);
	weir_history_add(&history, 2000, NULL);
	note(&history, 1, 2);
	whole = weir_history_json(&history);
	json_set_alloc_funcs(allocate, free);
	for (long n = 0; json == NULL; n++) {
		left = n;
		json = weir_history_json(&history);
	}
	json_set_alloc_funcs(malloc, free);
	assert_true(json_equal(json, whole));
	json_decref(json);
	json_decref(whole);
	json_decref(of_workers);
}

TEST(history_notes_each_start_once) {
	struct weir_history history = {.next_start = 0};
	const json_t *last, *starts;
	json_t *json;

	weir_history_note_starts(&history, NULL);
	note(&history, 10, 0); // 0: no dataplane, or an unknown time
	note(&history, 10, 20);
	note(&history, 30, 20);
	json = weir_history_json(&history);
	starts = json_object_get(json, "starts");
	assert_int_equal(json_array_size(starts), 3);
	last = json_array_get(starts, 2);
	assert_int_equal(json_integer_value(json_object_get(last, "time_ms")), 30);
	assert_string_equal(json_string_value(json_object_get(last, "process")), "weir-control");
	json_decref(json);
	for (int i = 0; i < 2 * WEIR_HISTORY_STARTS; i++) {
		note(&history, 100 + i, 20);
	}
	json = weir_history_json(&history);
	starts = json_object_get(json, "starts");
	assert_int_equal(json_array_size(starts), WEIR_HISTORY_STARTS);
	last = json_array_get(starts, WEIR_HISTORY_STARTS - 1);
	assert_int_equal(
		json_integer_value(json_object_get(last, "time_ms")), 99 + 2 * WEIR_HISTORY_STARTS);
	json_decref(json);
}

#define DAY_MS 360000u

// When the sample of the day is due, weir-control does not answer. The sample is taken from the
// next answer.
TEST(history_keeps_a_day) {
	struct weir_history history = {.next_start = 0};
	json_t *one = workers(10, 20), *json;
	uint64_t now = 0;

	for (unsigned int i = 0; i < 2 * DAY_MS / WEIR_HISTORY_MS; i++, now += WEIR_HISTORY_MS) {
		weir_history_add(&history, now, now == DAY_MS ? NULL : one);
	}
	json = weir_history_json(&history);
	assert_int_equal(
		json_array_size(samples(json, WEIR_HISTORY_RECENT)), 2 * DAY_MS / WEIR_HISTORY_MS);
	assert_int_equal(json_array_size(samples(json, WEIR_HISTORY_DAY)), 2);
	assert_int_equal(
		history.ring[WEIR_HISTORY_DAY].sample[1].time_ms, DAY_MS + WEIR_HISTORY_MS);
	json_decref(json);
	for (unsigned int i = 0; i < 3 * DAY_MS / WEIR_HISTORY_MS; i++, now += WEIR_HISTORY_MS) {
		weir_history_add(&history, now, NULL);
	}
	assert_int_equal(history.ring[WEIR_HISTORY_DAY].count, 3);
	assert_false(history.ring[WEIR_HISTORY_DAY].sample[2].known);
	json_decref(one);
}

TEST(history_follows_a_clock_that_is_set_back) {
	struct weir_history history = {.next_start = 0};

	for (unsigned int i = 1; i <= 10; i++) {
		weir_history_add(&history, i * DAY_MS, NULL);
	}
	weir_history_add(&history, 4 * DAY_MS, NULL);
	assert_int_equal(history.ring[WEIR_HISTORY_RECENT].count, 4);
	assert_int_equal(history.ring[WEIR_HISTORY_RECENT].sample[3].time_ms, 4 * DAY_MS);
}

// --- the file -----------------------------------------------------------------------------

// Fills all rings with numbers of as many digits as possible. This gives the longest history.
static void fill(struct weir_history *history) {
	json_t *most =
		json_pack("[{s:I, s:I, s:I, s:I, s:I}]", "rx_packets", INT64_MAX, "forwarded",
			INT64_MAX, "dropped", INT64_MAX, "flow_new", INT64_MAX, "flows", INT64_MAX);

	*history = (struct weir_history){.next_start = 0};
	for (uint64_t i = 1; i <= WEIR_HISTORY_SAMPLES + 3; i++) {
		weir_history_add(history, 1800000000000 + i * DAY_MS, most);
	}
	for (int i = 0; i < WEIR_HISTORY_STARTS; i++) {
		note(history, 1000000000 + i, 1000000000 + i);
	}
	json_decref(most);
}

static void put(const char *path, const char *text, size_t bytes) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	fclose(file);
}

static int read_into(struct folder *folder, struct weir_history *history) {
	folder->why[0] = '\0';
	return weir_history_read(
		folder->path, UINT64_MAX, history, folder->why, sizeof(folder->why));
}

TEST(history_survives_in_its_file) {
	struct folder *folder = *state;
	struct weir_history history, read = {.next_start = 0};
	json_t *json, *again;
	struct stat found;

	assert_int_equal(read_into(folder, &read), -ENOENT);
	fill(&history);
	json = weir_history_json(&history);
	umask(0);
	for (int i = 0; i < 2; i++) { // the second write replaces the file
		assert_int_equal(
			weir_history_write(folder->path, json, folder->why, sizeof(folder->why)),
			0);
	}
	assert_int_equal(lstat(folder->file, &found), 0);
	assert_int_equal(found.st_mode, S_IFREG | 0600);
	assert_true(found.st_size > 20000 && found.st_size <= WEIR_HISTORY_FILE_BYTES);
	assert_int_equal(read_into(folder, &read), 0);
	again = weir_history_json(&read);
	assert_true(json_equal(json, again));
	json_decref(again);
	// Samples with a time in the future are omitted. They were written while the clock was
	// ahead.
	assert_int_equal(weir_history_read(folder->path, 1800000000000 + 10 * DAY_MS, &read,
				 folder->why, sizeof(folder->why)),
		0);
	assert_int_equal(read.ring[WEIR_HISTORY_RECENT].count, 7);
	json_decref(json);
}

TEST(history_cannot_be_written) {
	struct folder *folder = *state;
	json_t *json = json_object();

	assert_int_equal(
		weir_history_write("/dev/null", json, folder->why, sizeof(folder->why)), -ENOTDIR);
	assert_string_equal(folder->why, "cannot write /dev/null/history.json: Not a directory");
	json_decref(json);
}

#define COLUMNS \
	"\"columns\": [\"time_ms\", \"rx_packets\", \"forwarded\", \"dropped\", \"flow_new\", " \
	"\"flows\"]"
#define RING(period, samples) "{\"period_ms\": " #period ", \"samples\": [" samples "]}"
#define HISTORY(samples, starts) \
	"{" COLUMNS \
	", \"rings\": [" RING(5000, samples) ", " RING(360000, "") "], \"starts\": [" starts "]}"

TEST(broken_history_is_refused) {
	static const char *const right[] = {HISTORY("", ""), HISTORY("[1, 2, 3, 4, 5, 6], [2]", ""),
		HISTORY("", "{\"time_ms\": 1, \"process\": \"weir-control\"}")};
	static const char *const wrong[] = {"", "{}", "[]", "null", "\0", "{" COLUMNS "}",
		"{" COLUMNS ", \"rings\": [], \"starts\": []}",
		"{" COLUMNS
		", \"rings\": [" RING(5000, "") ", " RING(5000, "") "], \"starts\": []}",
		"{\"columns\": [], \"rings\": [" RING(5000, "") ", " RING(
			360000, "") "], \"starts\": []}",
		HISTORY("[1, 2]", ""), HISTORY("[1, 2, 3, 4, 5, 6, 7]", ""),
		HISTORY("[1, 2, 3, 4, 5, -1]", ""), HISTORY("[1, 2, 3, 4, 5, 1.5]", ""),
		HISTORY("[1, 2, 3, 4, 5, null]", ""), HISTORY("[1, 2, 3, 4, 5, 1e400]", ""),
		HISTORY("[1, 2, 3, 4, 5, 9223372036854775808]", ""), HISTORY("[[1]]", ""),
		HISTORY("[\"<b>\"]", ""), HISTORY("[2], [1]", ""), HISTORY("[1], [1]", ""),
		HISTORY("[0]", ""), HISTORY("{}", ""), HISTORY("", "{}"),
		HISTORY("", "{\"time_ms\": 0, \"process\": \"weir-control\"}"),
		HISTORY("", "{\"time_ms\": 1, \"process\": \"<script>\"}"),
		HISTORY("", "{\"time_ms\": 1, \"process\": 1}"), HISTORY("", "[1]")};
	struct folder *folder = *state;
	struct weir_history history = {.next_start = 0};

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		put(folder->file, right[i], strlen(right[i]));
		assert_int_equal(read_into(folder, &history), 0);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put(folder->file, wrong[i], strlen(wrong[i]));
		if (read_into(folder, &history) != -EINVAL) {
			fail_msg("accepted: %s", wrong[i]);
		}
		assert_non_null(strstr(folder->why, "history.json is not a history"));
	}
	// The refused files have not changed the history.
	assert_int_equal(history.ring[WEIR_HISTORY_RECENT].count, 0);
	assert_int_equal(history.next_start, 1);
}

// The file is truncated after each of its bytes, or one of its bytes is changed. It is refused or
// read correctly, without a crash.
TEST(damaged_history_is_harmless) {
	struct weir_history history = {.next_start = 0}, read;
	struct folder *folder = *state;
	json_t *one = workers(10, 20), *json;
	char *text;
	size_t bytes;

	weir_history_add(&history, 1000, one);
	weir_history_add(&history, 2000, NULL);
	note(&history, 10, 20);
	json = weir_history_json(&history);
	text = json_dumps(json, JSON_COMPACT);
	bytes = strlen(text);
	for (size_t i = 0; i < bytes; i++) {
		const char byte = text[i];

		put(folder->file, text, i);
		assert_int_equal(read_into(folder, &read), -EINVAL);
		for (size_t n = 0; n < 6; n++) {
			text[i] = "\"[]9-\xff"[n];
			put(folder->file, text, bytes);
			(void)read_into(folder, &read);
		}
		text[i] = byte;
	}
	free(text);
	json_decref(json);
	json_decref(one);
}

TEST(history_is_read_from_small_regular_files_only) {
	static const int errors[] = {-EINVAL, -ELOOP, -EINVAL, -EFBIG, -EINVAL};
	struct weir_history history = {.next_start = 0};
	struct folder *folder = *state;
	char *much = malloc(WEIR_HISTORY_FILE_BYTES + 1);

	assert_non_null(much);
	memset(much, '[', WEIR_HISTORY_FILE_BYTES + 1);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (i == 0) {
			assert_int_equal(mkfifo(folder->file, 0600), 0);
		} else if (i == 1) {
			assert_int_equal(symlink("/etc/passwd", folder->file), 0);
		} else if (i == 2) {
			assert_int_equal(mkdir(folder->file, 0700), 0);
		} else {
			put(folder->file, much, WEIR_HISTORY_FILE_BYTES + (i == 3 ? 1 : 0));
		}
		assert_int_equal(read_into(folder, &history), errors[i]);
		assert_true(folder->why[0] != '\0' && strchr(folder->why, '\n') == NULL);
		if (i != 3) { // the file is replaced by a shorter file
			assert_int_equal(i == 2 ? rmdir(folder->file) : unlink(folder->file), 0);
		}
	}
	free(much);
}
