// SPDX-License-Identifier: BSD-3-Clause
#include <netinet/in.h>
#include <string.h>

#include "bench_lab.h"
#include "packets.h"
#include "test.h"
#include "traffic.h"

#define BURST 64u
#define BURSTS 2000u

static void begin(
	struct weir_bench_traffic *traffic, struct weir_bench_options *options, const char *line) {
	char why[256] = "";

	if (bench_lab_options(line, options, why) < 0) {
		fail_msg("%s", why);
	}
	assert_int_equal(weir_bench_traffic_init(traffic, options), 0);
}

TEST(established_is_steady_data) {
	struct weir_bench_options options;
	struct weir_bench_traffic traffic;
	struct weir_bench_item items[BURST];

	begin(&traffic, &options, "weir-bench --flows 1000");
	for (unsigned int b = 0; b < 100; b++) {
		weir_bench_traffic_burst(&traffic, items, BURST, false);
		for (unsigned int i = 0; i < BURST; i++) {
			assert_true(items[i].steady < 1000);
			assert_int_equal(items[i].number, items[i].steady);
			assert_int_equal(items[i].flags, WEIR_BENCH_ACK);
			assert_int_equal(items[i].protocol, IPPROTO_TCP);
		}
	}
	weir_bench_traffic_fini(&traffic);
}

TEST(new_is_fresh_syns) {
	struct weir_bench_options options;
	struct weir_bench_traffic traffic;
	struct weir_bench_item items[BURST];

	begin(&traffic, &options, "weir-bench --case new --flows 1000");
	assert_int_equal(weir_bench_traffic_flows(&traffic), 750); // the other flows are half-open
	for (uint64_t b = 0; b < 100; b++) {
		weir_bench_traffic_burst(&traffic, items, BURST, false);
		for (unsigned int i = 0; i < BURST; i++) {
			assert_int_equal(items[i].steady, WEIR_BENCH_STEADY_NONE);
			assert_int_equal(items[i].number, WEIR_BENCH_FRESH + b * BURST + i);
			assert_int_equal(items[i].flags, WEIR_BENCH_SYN);
		}
	}
	weir_bench_traffic_fini(&traffic);
}

// Half of all packets belong to the flood. In a single burst, the share may have any value from 0
// to 1.
TEST(flood_differs_from_burst_to_burst) {
	struct weir_bench_options options;
	struct weir_bench_traffic traffic;
	struct weir_bench_item items[BURST];
	unsigned int syns = 0, few = 0, many = 0;

	begin(&traffic, &options, "weir-bench --case syn-flood --flows 1000");
	for (unsigned int b = 0; b < BURSTS; b++) {
		unsigned int in_burst = 0;

		weir_bench_traffic_burst(&traffic, items, BURST, false);
		for (unsigned int i = 0; i < BURST; i++) {
			in_burst += items[i].steady == WEIR_BENCH_STEADY_NONE;
		}
		syns += in_burst;
		few += in_burst < BURST / 4;
		many += in_burst > BURST * 3 / 4;
	}
	assert_in_range(syns, BURSTS * BURST * 47 / 100, BURSTS * BURST * 53 / 100);
	assert_true(few > BURSTS / 10 && many > BURSTS / 10);
	weir_bench_traffic_burst(&traffic, items, BURST, true);
	for (unsigned int i = 0; i < BURST; i++) {
		assert_true(items[i].steady < 1000);
	}
	weir_bench_traffic_fini(&traffic);
}

// Each new flow sends a SYN, data and a FIN with the same flow number. The shares of packets are as
// requested.
TEST(mixed_flows_start_and_end) {
	static uint32_t sent[BURST * BURSTS];
	struct weir_bench_options options;
	struct weir_bench_traffic traffic;
	struct weir_bench_item items[BURST];
	unsigned int syns = 0, fins = 0, datagrams = 0, steady = 0;

	begin(&traffic, &options, "weir-bench --case mixed --flows 1000 --packets-per-flow 4");
	for (unsigned int b = 0; b < BURSTS; b++) {
		weir_bench_traffic_burst(&traffic, items, BURST, false);
		for (unsigned int i = 0; i < BURST; i++) {
			const struct weir_bench_item *item = &items[i];
			uint64_t fresh = item->number - WEIR_BENCH_FRESH;

			if (item->steady != WEIR_BENCH_STEADY_NONE) {
				steady++;
				datagrams += item->protocol == IPPROTO_UDP;
				assert_int_equal(
					item->protocol == IPPROTO_UDP, item->steady % 5 == 0);
				continue;
			}
			assert_true(fresh < BURST * BURSTS);
			assert_true(item->young < WEIR_BENCH_YOUNG);
			assert_int_equal(item->flags, sent[fresh] == 0 ? WEIR_BENCH_SYN
						      : sent[fresh] == 3
							      ? WEIR_BENCH_ACK | WEIR_BENCH_FIN
							      : WEIR_BENCH_ACK);
			assert_true(sent[fresh] < 4);
			sent[fresh]++;
			syns += item->flags == WEIR_BENCH_SYN;
			fins += (item->flags & WEIR_BENCH_FIN) != 0;
		}
	}
	// A fifth of the packets belong to fresh flows. Flows in progress have sent no FIN yet.
	assert_in_range(steady, BURSTS * BURST * 79 / 100, BURSTS * BURST * 81 / 100);
	assert_in_range(datagrams, steady * 18 / 100, steady * 22 / 100);
	assert_in_range(syns, fins, fins + WEIR_BENCH_YOUNG);
	assert_true(fins > 2000);
	weir_bench_traffic_fini(&traffic);
}

TEST(share_of_new_flows) {
	struct weir_bench_options options;
	struct weir_bench_traffic traffic;
	struct weir_bench_item items[BURST];
	unsigned int syns = 0;

	begin(&traffic, &options, "weir-bench --flows 1000 --new-percent 2");
	for (unsigned int b = 0; b < BURSTS; b++) {
		weir_bench_traffic_burst(&traffic, items, BURST, false);
		for (unsigned int i = 0; i < BURST; i++) {
			syns += items[i].flags == WEIR_BENCH_SYN;
		}
	}
	assert_in_range(syns, BURSTS * BURST * 18 / 1000, BURSTS * BURST * 22 / 1000);
	weir_bench_traffic_fini(&traffic);
}

TEST(restart_repeats) {
	static const char *const lines[] = {"weir-bench --flows 5000",
		"weir-bench --case new --flows 5000", "weir-bench --case syn-flood --flows 5000",
		"weir-bench --case mixed --flows 5000",
		"weir-bench --flows 5000 --order zipf --seed 9"};

	for (unsigned int l = 0; l < sizeof(lines) / sizeof(lines[0]); l++) {
		static struct weir_bench_item first[100 * BURST], second[100 * BURST];
		struct weir_bench_options options;
		struct weir_bench_traffic traffic;

		memset(first, 0, sizeof(first));
		memset(second, 0, sizeof(second));
		begin(&traffic, &options, lines[l]);
		for (unsigned int b = 0; b < 100; b++) {
			weir_bench_traffic_burst(&traffic, first + b * BURST, BURST, b % 3 == 0);
		}
		weir_bench_traffic_restart(&traffic);
		for (unsigned int b = 0; b < 100; b++) {
			weir_bench_traffic_burst(&traffic, second + b * BURST, BURST, b % 3 == 0);
		}
		for (unsigned int i = 0; i < 100 * BURST; i++) {
			assert_int_equal(first[i].number, second[i].number);
			assert_int_equal(first[i].steady, second[i].steady);
			assert_int_equal(first[i].flags, second[i].flags);
		}
		weir_bench_traffic_fini(&traffic);
	}
}

TEST(moved_flows_have_another_number) {
	struct weir_bench_options options;
	struct weir_bench_traffic traffic;

	begin(&traffic, &options, "weir-bench --flows 100000");
	for (uint32_t steady = 3; steady < 100000; steady += 7) {
		assert_int_equal(weir_bench_traffic_move(&traffic, steady), 0);
	}
	assert_int_equal(weir_bench_traffic_move(&traffic, 99998), 0);
	assert_int_equal(weir_bench_traffic_move(&traffic, 99998), 0);
	for (uint32_t steady = 0; steady < 99990; steady++) {
		struct weir_bench_item item = weir_bench_traffic_steady(&traffic, steady, true);

		assert_int_equal(item.steady, steady);
		assert_int_equal(item.flags, WEIR_BENCH_SYN);
		if (steady % 7 == 3) {
			assert_int_equal(item.number, WEIR_BENCH_EXTRA + steady / 7);
		} else {
			assert_int_equal(item.number, steady);
		}
	}
	// The flow was replaced three times. It has the last tuple, which belongs to no other flow.
	assert_int_equal(weir_bench_traffic_steady(&traffic, 99998, false).number,
		WEIR_BENCH_EXTRA + 99998 / 7 + 2);
	weir_bench_traffic_fini(&traffic);
}
