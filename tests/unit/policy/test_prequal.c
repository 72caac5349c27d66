// SPDX-License-Identifier: BSD-3-Clause
//
// Prequal: choices with fresh and with old reports, limits, and removed backends. The selection
// rule itself is compared with tests/vectors/prequal.json in tests/replay.
#include "backend_signal.h"
#include "policy_lab.h"

#define PREQUAL WEIR_POLICY_PREQUAL

static struct world *begin(uint32_t n) {
	struct world *w = world_create(n);

	w->now_ns = HOUR;
	world_publish(w, PREQUAL, NULL, NULL, n);
	return w;
}

static void tell(struct world *w, uint16_t id, uint32_t active, uint64_t latency_ns) {
	w->costs[id] = weir_signal_of_probe(active, latency_ns, w->now_ns);
}

// Makes n choices, 1 ms apart. Returns how often `id` was chosen.
static uint32_t chosen(struct world *w, uint16_t id, uint32_t n) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		count += world_choose(w) == id;
	}
	return count;
}

TEST(signals_are_read_as_written) {
	uint64_t word = weir_signal_of_probe(77, 5 * MS, 3 * HOUR);

	assert_true(weir_signal_is_probe(word));
	assert_int_equal(weir_signal_probe_active(word), 77);
	assert_in_range((uint64_t)weir_signal_probe_latency(word) << 14, 5 * MS - 16384, 5 * MS);
	assert_int_equal(weir_signal_probe_stamp(word), weir_signal_stamp(3 * HOUR));
	assert_int_equal(weir_signal_cost(word) + weir_signal_errors(word), 0);
	word = weir_signal_of_probe(1u << 20, HOUR, 1); // the maximum that fits
	assert_int_equal(weir_signal_probe_active(word), WEIR_SIGNAL_ACTIVE_MAX);
	assert_int_equal(weir_signal_probe_latency(word), WEIR_SIGNAL_LATENCY_MAX);
}

TEST(slow_backends_are_avoided) {
	struct world *w = begin(40);
	uint32_t slow = 0;

	for (uint16_t id = 0; id < 40; id++) {
		tell(w, id, 3, id < 20 ? 10 * MS : 100 * MS);
	}
	for (uint32_t i = 0; i < 4000; i++) {
		uint16_t id = world_flow(w);

		world_end(w, id, WEIR_OUTCOME_COMPLETED);
		slow += id >= 20;
	}
	assert_true(slow < 4000 / 8); // an equal share would be half of the flows
	world_free(w);
}

// If all backends have the same latency, backends with many requests in progress are hot, and get
// few flows.
TEST(busy_backends_are_avoided) {
	struct world *w = begin(40);
	uint32_t busy = 0;

	for (uint16_t id = 0; id < 40; id++) {
		tell(w, id, id < 4 ? 100 : 5, id < 4 ? 1 * MS : 10 * MS);
	}
	for (uint32_t i = 0; i < 4000; i++) {
		uint16_t id = world_flow(w);

		world_end(w, id, WEIR_OUTCOME_COMPLETED);
		busy += i >= 500 && id < 4;
	}
	assert_true(busy < 3500 / 40); // an equal share would be a tenth of the flows
	world_free(w);
}

// The flows that this worker has started since the report also count. Therefore not all flows go to
// the best backend.
TEST(flows_since_the_report_count) {
	struct world *w = begin(8);
	uint32_t most = 0;

	for (uint16_t id = 0; id < 8; id++) {
		tell(w, id, 0, (10 + id) * MS);
	}
	for (uint32_t i = 0; i < 800; i++) {
		world_flow(w);
	}
	for (uint16_t id = 0; id < 8; id++) {
		most = w->backends[id].active > most ? w->backends[id].active : most;
		assert_true(w->backends[id].active > 20);
	}
	assert_true(most < 300);
	world_free(w);
}

// Reports older than a second are ignored. Then random backends are chosen, including the slow
// backend.
TEST(old_reports_are_not_used) {
	struct world *w = begin(10);

	for (uint16_t id = 0; id < 10; id++) {
		tell(w, id, 1, id == 7 ? SECOND : MS);
	}
	w->now_ns += SECOND - 10 * MS;
	assert_true(chosen(w, 7, 2000) < 20);
	w->now_ns += 20 * MS;
	assert_in_range(chosen(w, 7, 2000), 140, 260);
	tell(w, 7, 1, MS); // one fresh probe is too few
	assert_in_range(chosen(w, 7, 2000), 140, 260);
	world_free(w);
}

// The time in a report has 24 bits. Without weir-control, the reports stay in the segment, and
// after 4.9 hours, their age is that of new reports for about a second.
TEST(reports_of_hours_ago_are_not_used) {
	struct world *w = begin(10);

	for (uint16_t id = 0; id < 10; id++) {
		tell(w, id, 1, id == 7 ? SECOND : MS);
	}
	w->now_ns += (UINT64_C(1) << 44) - 2 * SECOND;
	assert_in_range(chosen(w, 7, 2000), 140, 260);
	world_free(w);
}

TEST(signals_of_other_kinds_are_no_probes) {
	struct world *w = begin(2);

	w->costs[0] = 5 * MS;
	w->costs[1] = weir_signal_of_errors(100);
	assert_in_range(chosen(w, 1, 2000), 850, 1150);
	world_free(w);
}

TEST(limits_and_removed_backends) {
	static const uint16_t rest[] = {1, 2, 3, 4, 5, 6, 7};
	struct world *w = begin(8);

	for (uint16_t id = 0; id < 8; id++) {
		tell(w, id, 1, id == 0 ? MS : 50 * MS);
	}
	assert_true(chosen(w, 0, 100) > 10);
	world_publish(w, PREQUAL, rest, NULL, 7);
	assert_int_equal(chosen(w, 0, 1000), 0);
	w->table.settings.max_active_flows = 1;
	world_publish(w, PREQUAL, NULL, NULL, 8);
	world_start(w, 0);
	assert_int_equal(chosen(w, 0, 1000), 0);
	world_free(w);
}

// All packets of a burst have the same time, so reports that arrive during the burst have a later
// time.
TEST(reports_newer_than_the_burst_are_used) {
	struct world *w = begin(10);
	uint64_t burst_ns = w->now_ns;

	w->now_ns += 50 * MS;
	for (uint16_t id = 0; id < 10; id++) {
		tell(w, id, 1, id == 7 ? SECOND : MS);
	}
	w->now_ns = burst_ns;
	assert_true(chosen(w, 7, 2000) < 20); // random choices would give 200
	world_free(w);
}
