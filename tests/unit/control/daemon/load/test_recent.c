// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <string.h>

#include "tables_lab.h"

#include "recent.h"

static void add(struct weir_segment *segment, uint32_t worker, uint16_t backend, uint64_t flows) {
	weir_segment_backend_counters(segment, worker, backend)->new_flows += flows;
}

TEST(new_flows_of_the_last_minute) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};

	add(segment, 0, 1, 1000); // counted before the first sample
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 0);
	weir_recent_take(&recent, segment, 3, 1);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 0);
	add(segment, 0, 1, 3);
	add(segment, 1, 1, 4);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 7);
	for (int i = 1; i < WEIR_RECENT_SAMPLES; i++) {
		weir_recent_take(&recent, segment, 3, 1);
		assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 7);
	}
	add(segment, 0, 1, 10);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 17);
	// the oldest sample is dropped, with its 7 flows
	weir_recent_take(&recent, segment, 3, 1);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 10);
	for (int i = 1; i < WEIR_RECENT_SAMPLES; i++) {
		weir_recent_take(&recent, segment, 3, 1);
	}
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 0);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

// A backend was added after the last sample. It has no history, because earlier counts of its id
// belong to another backend.
TEST(later_backends_have_no_history) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};

	weir_recent_take(&recent, segment, 1, 1);
	add(segment, 0, 4, 50);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 4), 0);
	weir_recent_take(&recent, segment, 5, 1);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 4), 0);
	add(segment, 0, 4, 2);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 4), 2);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

TEST(limited_flows_of_a_service) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};

	weir_recent_take(&recent, segment, 1, 2);
	weir_segment_service_counters(segment, 0, 1)->spilled = 3;
	weir_segment_service_counters(segment, 1, 1)->rejected = 2;
	assert_int_equal(weir_recent_limited(&recent, segment, 1).spilled, 3);
	assert_int_equal(weir_recent_limited(&recent, segment, 1).rejected, 2);
	assert_int_equal(weir_recent_limited(&recent, segment, 0).spilled, 0);
	assert_int_equal(weir_recent_limited(&recent, segment, 0).rejected, 0);
	for (int i = 0; i < WEIR_RECENT_SAMPLES; i++) {
		weir_recent_take(&recent, segment, 1, 2);
	}
	assert_int_equal(weir_recent_limited(&recent, segment, 1).spilled, 0);
	assert_int_equal(weir_recent_limited(&recent, segment, 1).rejected, 0);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

TEST(untracked_packets_of_all_workers) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};

	segment->worker_counters[0].flow_untracked = 100; // before the first sample
	assert_int_equal(weir_recent_untracked(&recent, segment), 0);
	weir_recent_take(&recent, segment, 1, 1);
	assert_int_equal(weir_recent_untracked(&recent, segment), 0);
	segment->worker_counters[0].flow_untracked += 3;
	segment->worker_counters[1].flow_untracked += 4;
	assert_int_equal(weir_recent_untracked(&recent, segment), 7);
	weir_recent_take_slice(&recent, segment, 1, 1); // the first slice of a sample
	assert_int_equal(weir_recent_untracked(&recent, segment), 7);
	for (int i = 0; i < WEIR_RECENT_SAMPLES; i++) {
		weir_recent_take(&recent, segment, 1, 1);
	}
	assert_int_equal(weir_recent_untracked(&recent, segment), 0);
	assert_int_equal(weir_recent_untracked(&recent, NULL), 0);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

static void put_flows(struct weir_segment *segment, uint64_t flows, uint64_t half_open) {
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		segment->worker_counters[worker].flows = flows;
		segment->worker_counters[worker].flows_half_open = half_open;
		segment->worker_counters[worker].flow_untracked++;
	}
}

TEST(packets_without_an_entry_lack_room_for_half_open_flows_or_for_all) {
	static const struct {
		uint64_t flows, half_open; // numbers of flows of each worker
		enum weir_recent_lack lack;
	} cases[] = {{460, 252, WEIR_RECENT_LACK_HALF_OPEN}, // IPv4: the share is 256 of 1024
		{256, 256, WEIR_RECENT_LACK_HALF_OPEN}, {1020, 250, WEIR_RECENT_LACK_TABLE},
		{1024, 0, WEIR_RECENT_LACK_TABLE}, {800, 100, WEIR_RECENT_LACK_TABLE},
		{120, 64, WEIR_RECENT_LACK_HALF_OPEN}, // IPv6: the share is 64 of 256
		{256, 64, WEIR_RECENT_LACK_TABLE}, {0, 10, WEIR_RECENT_LACK_TABLE}};
	const struct weir_config_flow_table table = {
		.flows_per_worker = 1024, .half_open_percent = 25, .ipv6_percent = 25};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_segment *segment = lab_segment(NULL);
		struct weir_recent recent = {0};

		weir_recent_take(&recent, segment, 1, 1);
		assert_int_equal(weir_recent_lack(&recent, segment, &table), WEIR_RECENT_LACK_NONE);
		put_flows(segment, cases[i].flows, cases[i].half_open);
		if (weir_recent_lack(&recent, segment, &table) != cases[i].lack) {
			fail_msg("case %zu", i);
		}
		weir_recent_fini(&recent);
		weir_segment_free(segment);
	}
}

// The half-open flows of a flood end before the packets are a minute old. The table can become full
// later in this minute.
TEST(lack_of_room_is_logged_once_and_remembered) {
	static const char *const lines[] = {
		"no room for half-open flows", "the flow table is full", "the flow table has room"};
	const struct weir_config_flow_table table = {
		.flows_per_worker = 1024, .half_open_percent = 25, .ipv6_percent = 25};
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};
	char text[4096];
	FILE *file = tmpfile();
	struct weir_log log = {.fd = fileno(file), .level = WEIR_LOG_INFO};
	const char *at = text;

	weir_recent_take(&recent, segment, 1, 1);
	weir_recent_log_untracked(&recent, segment, &table, &log);
	put_flows(segment, 260, 256);
	weir_recent_log_untracked(&recent, segment, &table, &log);
	segment->worker_counters[0].flows_half_open = 0;
	segment->worker_counters[0].flows = 4;
	weir_recent_log_untracked(&recent, segment, &table, &log);
	assert_int_equal(weir_recent_lack(&recent, segment, &table), WEIR_RECENT_LACK_HALF_OPEN);
	put_flows(segment, 1024, 0);
	weir_recent_log_untracked(&recent, segment, &table, &log);
	put_flows(segment, 260, 256);
	weir_recent_log_untracked(&recent, segment, &table, &log);
	assert_int_equal(weir_recent_lack(&recent, segment, &table), WEIR_RECENT_LACK_TABLE);
	for (int i = 0; i < WEIR_RECENT_SAMPLES; i++) {
		weir_recent_take(&recent, segment, 1, 1);
		weir_recent_log_untracked(&recent, segment, &table, &log);
	}
	assert_int_equal(weir_recent_lack(&recent, segment, &table), WEIR_RECENT_LACK_NONE);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		at = strstr(at, lines[i]);
		if (at == NULL) {
			fail_msg("no \"%s\" in %s", lines[i], text);
		}
	}
	assert_null(strstr(at + strlen(lines[2]), "flow table"));
	fclose(file);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

static uint32_t sampled(const struct weir_recent *recent) {
	return recent->sampled_backends + recent->sampled_services;
}

// A sample is taken in slices. Each slice covers a part of the ids, and all slices together cover
// each id once.
TEST(a_sample_is_taken_in_slices) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};

	weir_recent_take(&recent, segment, 512, 64);
	for (uint32_t slice = 0; slice < WEIR_RECENT_SLICES; slice++) {
		uint32_t before = sampled(&recent);

		assert_int_equal(recent.samples, 1);
		for (uint16_t id = 0; id < 512; id++) {
			add(segment, 0, id, 1);
		}
		weir_recent_take_slice(&recent, segment, 512, 64);
		if (slice + 1 < WEIR_RECENT_SLICES) {
			assert_in_range(sampled(&recent) - before, 576 / WEIR_RECENT_SLICES - 1,
				576 / WEIR_RECENT_SLICES + 2);
		} else {
			assert_in_range(576 - before, 1, 576 / WEIR_RECENT_SLICES + 2);
		}
	}
	assert_int_equal(recent.samples, 2);
	// An id in a later slice has a higher count, because flows were added before each slice.
	assert_int_equal(recent.new_flows[0][1], 1);
	assert_int_equal(recent.new_flows[511][1], WEIR_RECENT_SLICES);
	for (uint32_t id = 1; id < 512; id++) {
		assert_in_range(recent.new_flows[id][1] - recent.new_flows[id - 1][1], 0, 1);
	}
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

TEST(bounds) {
	const struct lab_room room = {.max_services = 2, .max_backends = 3};
	struct weir_segment *segment = lab_segment(&room);
	struct weir_recent recent = {0};

	weir_recent_take(&recent, segment, 65535, 65535); // more than the maximum number of ids
	assert_int_equal(recent.backends, 3);
	assert_int_equal(recent.services, 2);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 3), 0);
	assert_int_equal(weir_recent_limited(&recent, segment, 2).spilled, 0);
	assert_int_equal(weir_recent_new_flows(&recent, NULL, 0), 0);
	assert_int_equal(weir_recent_limited(&recent, NULL, 0).spilled, 0);
	weir_recent_fini(&recent);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 0), 0);
	weir_recent_take(&recent, segment, 0, 0);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}
