// SPDX-License-Identifier: BSD-3-Clause
//
// Tests TCP reports: rates from the increase of an agent's counters over the last 10 to 20 seconds.
#include <errno.h>
#include <math.h>

#include "tcp_report.h"
#include "test.h"

#define LIFETIME_MS 40000

// Returns TCP statistics that the agent read at look_ms of its own clock.
static struct weir_agent_tcp figures_at(
	uint64_t look_ms, uint64_t segments, uint64_t retransmitted, uint64_t bytes) {
	return (struct weir_agent_tcp){.agent = 7,
		.clock_ms = look_ms + 300,
		.age_ms = 300,
		.ipv4 = {.segments = segments,
			.retransmitted = retransmitted,
			.sent_bytes = bytes,
			.connections = 3,
			.rtt_median_us = 20000}};
}

static struct weir_tcp_status status_of(const struct weir_tcp_report *report, uint64_t now_ms) {
	struct weir_tcp_status status;

	assert_int_equal(weir_tcp_report_status(report, now_ms, LIFETIME_MS, &status), 0);
	return status;
}

static void take(struct weir_tcp_report *report, const struct weir_agent_tcp tcp, uint64_t now_ms) {
	weir_tcp_report_take(report, &tcp, now_ms);
}

TEST(tcp_report_has_no_rate_before_the_second_look) {
	struct weir_tcp_report report = {0};
	struct weir_tcp_status status;

	assert_int_equal(weir_tcp_report_status(&report, 5000, LIFETIME_MS, &status), -ENOENT);
	take(&report, figures_at(1000, 500, 5, 70000), 90000);
	status = status_of(&report, 90100);
	assert_int_equal(status.age_ms, 400);
	assert_true(status.ipv4.seen && !status.ipv6.seen && !status.partial);
	assert_int_equal(status.ipv4.last.rtt_median_us, 20000);
	assert_true(status.ipv4.retransmitted_percent < 0 && status.ipv4.sent_bytes_per_s < 0);
	// the statistics of the same reading arrive again
	take(&report, figures_at(1000, 500, 5, 70000), 90500);
	assert_true(status_of(&report, 90500).ipv4.sent_bytes_per_s < 0);
	take(&report, figures_at(3000, 600, 7, 90000), 91000);
	status = status_of(&report, 91000);
	assert_true(fabs(status.ipv4.retransmitted_percent - 2) < 1e-9);
	assert_true(fabs(status.ipv4.sent_bytes_per_s - 10000) < 1e-9);
}

// The agent reads TCP statistics once a second. Each reading has 10 segments more than the
// reading before. Segments are retransmitted only from the 30th to the 39th second.
TEST(tcp_report_covers_the_last_10_to_20_seconds) {
	struct weir_tcp_report report = {0};
	uint64_t lost = 0;

	for (uint64_t second = 1; second <= 70; second++) {
		double percent;

		lost += second >= 30 && second < 40 ? 5 : 0;
		take(&report, figures_at(1000 * second, 10 * second, lost, 1000 * second),
			1000 * second);
		percent = status_of(&report, 1000 * second).ipv4.retransmitted_percent;
		if (second > 1) {
			assert_true(fabs(status_of(&report, 1000 * second).ipv4.sent_bytes_per_s -
					    1000) < 1e-6);
			assert_true((percent > 0) == (second >= 30 && percent > 0));
		}
		assert_true(second < 31 || second > 49 || percent > 0);
		assert_true(second < 60 || percent == 0);
		assert_true(second != 39 || percent >= 25);
	}
}

TEST(tcp_report_begins_again_with_another_process_of_the_agent) {
	struct weir_tcp_report report = {0};
	struct weir_agent_tcp after = figures_at(50, 10, 0, 100);
	struct weir_tcp_status status;

	take(&report, figures_at(100000, 5000, 50, 700000), 1000);
	take(&report, figures_at(101000, 5100, 50, 710000), 2000);
	after.agent = 8;
	take(&report, after, 3000);
	status = status_of(&report, 3000);
	assert_true(status.ipv4.retransmitted_percent < 0 && status.ipv4.sent_bytes_per_s < 0);
	after.clock_ms += 1000;
	after.ipv4.segments = 20;
	take(&report, after, 4000);
	assert_true(status_of(&report, 4000).ipv4.retransmitted_percent == 0);
}

// Authenticated datagrams contain sums that decrease, or more retransmitted segments than sent
// segments.
TEST(tcp_report_of_impossible_sums_has_no_impossible_rate) {
	struct weir_tcp_report report = {0};

	take(&report, figures_at(1000, 500, 5, 70000), 1000);
	take(&report, figures_at(2000, 400, 5, 70000), 2000);
	assert_true(status_of(&report, 2000).ipv4.retransmitted_percent < 0);
	take(&report, figures_at(3000, 500, 5, 60000), 3000);
	assert_true(status_of(&report, 3000).ipv4.sent_bytes_per_s < 0);
	take(&report, figures_at(4000, 502, 5000, 70000), 4000);
	assert_true(status_of(&report, 4000).ipv4.retransmitted_percent == 100);
	take(&report, figures_at(900, 600, 6, 80000), 5000); // an earlier reading
	assert_true(status_of(&report, 5000).ipv4.sent_bytes_per_s < 0);
	take(&report, (struct weir_agent_tcp){.agent = 7, .clock_ms = 5, .age_ms = 10}, 6000);
	assert_int_equal(status_of(&report, 6000).age_ms, 10);
}

TEST(tcp_report_expires) {
	struct weir_tcp_report report = {0};
	struct weir_tcp_status status;

	take(&report, figures_at(1000, 1, 0, 1), 1000);
	assert_int_equal(
		weir_tcp_report_status(&report, 1000 + LIFETIME_MS, LIFETIME_MS, &status), 0);
	assert_int_equal(
		weir_tcp_report_status(&report, 1001 + LIFETIME_MS, LIFETIME_MS, &status), -ENOENT);
}
