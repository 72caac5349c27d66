// SPDX-License-Identifier: BSD-3-Clause
#include "traffic.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "packets.h"

#define UDP_EVERY 5 // case mixed: one steady flow in five is UDP

// Returns the number of steady flows, which are in the table before a run. In case `new` the table
// is full: half-open flows have their maximum share of the table, and steady flows fill the
// remaining part.
static uint32_t steady_flows(const struct weir_bench_options *options) {
	uint64_t half_open = (uint64_t)options->table_flows * options->half_open_percent / 100;

	if (options->kind != WEIR_BENCH_CASE_NEW) {
		return options->flows;
	}
	return options->flows > half_open ? options->flows - (uint32_t)half_open : 0;
}

int weir_bench_traffic_init(
	struct weir_bench_traffic *traffic, const struct weir_bench_options *options) {
	*traffic = (struct weir_bench_traffic){.options = options,
		.steady = steady_flows(options),
		.share = options->new_percent / 100};
	if (options->kind == WEIR_BENCH_CASE_MIXED) {
		traffic->share *= options->packets_per_flow;
		traffic->young = calloc(WEIR_BENCH_YOUNG, sizeof(*traffic->young));
		if (traffic->young == NULL) {
			return -ENOMEM;
		}
	}
	weir_bench_traffic_restart(traffic);
	return 0;
}

void weir_bench_traffic_fini(struct weir_bench_traffic *traffic) {
	free(traffic->young);
	free(traffic->moved);
	*traffic = (struct weir_bench_traffic){0};
}

void weir_bench_traffic_restart(struct weir_bench_traffic *traffic) {
	const struct weir_bench_options *options = traffic->options;

	weir_bench_order_init(&traffic->order, options->order,
		traffic->steady > 0 ? traffic->steady : 1, options->zipf_exponent,
		options->seed ^ 0x5851f42d4c957f2dull);
	traffic->random.state = options->seed ^ 0x14057b7ef767814full;
	traffic->fresh = 0;
	if (traffic->young != NULL) {
		memset(traffic->young, 0, WEIR_BENCH_YOUNG * sizeof(*traffic->young));
	}
}

uint32_t weir_bench_traffic_flows(const struct weir_bench_traffic *traffic) {
	return traffic->steady;
}

// --- steady flows -------------------------------------------------------------------------

static uint64_t number_of(const struct weir_bench_traffic *traffic, uint32_t steady) {
	uint32_t low = 0, high = traffic->moved_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (traffic->moved[middle].steady < steady) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	if (low < traffic->moved_count && traffic->moved[low].steady == steady) {
		return WEIR_BENCH_EXTRA + traffic->moved[low].extra;
	}
	return steady;
}

int weir_bench_traffic_move(struct weir_bench_traffic *traffic, uint32_t steady) {
	uint32_t count = traffic->moved_count;
	uint32_t extra = count > 0 ? traffic->moved[count - 1].extra + 1 : 0;

	if (count > 0 && traffic->moved[count - 1].steady == steady) {
		traffic->moved[count - 1].extra = extra;
		return 0;
	}
	if (count == traffic->moved_room) {
		uint32_t room = count > 0 ? count * 2 : 64;
		struct weir_bench_moved *moved =
			realloc(traffic->moved, room * sizeof(*traffic->moved));

		if (moved == NULL) {
			return -ENOMEM;
		}
		traffic->moved = moved;
		traffic->moved_room = room;
	}
	traffic->moved[traffic->moved_count++] = (struct weir_bench_moved){steady, extra};
	return 0;
}

static uint8_t protocol_of(const struct weir_bench_options *options, uint32_t steady) {
	if (options->kind == WEIR_BENCH_CASE_MIXED) {
		return steady % UDP_EVERY == 0 ? IPPROTO_UDP : IPPROTO_TCP;
	}
	return options->protocol;
}

struct weir_bench_item weir_bench_traffic_steady(
	const struct weir_bench_traffic *traffic, uint32_t steady, bool first) {
	return (struct weir_bench_item){.number = number_of(traffic, steady),
		.steady = steady,
		.protocol = protocol_of(traffic->options, steady),
		.flags = first ? WEIR_BENCH_SYN : WEIR_BENCH_ACK};
}

// --- fresh flows --------------------------------------------------------------------------

static struct weir_bench_item fresh(struct weir_bench_traffic *traffic) {
	return (struct weir_bench_item){.number = WEIR_BENCH_FRESH + traffic->fresh++,
		.steady = WEIR_BENCH_STEADY_NONE,
		.protocol = traffic->options->protocol,
		.flags = WEIR_BENCH_SYN};
}

// Returns the next packet of a random flow in progress: a SYN, a data packet, or a FIN as the last
// packet.
static struct weir_bench_item young(struct weir_bench_traffic *traffic) {
	uint32_t place = weir_bench_random_below(&traffic->random, WEIR_BENCH_YOUNG);
	struct weir_bench_young *flow = &traffic->young[place];
	struct weir_bench_item item;

	if (flow->left == 0) {
		item = fresh(traffic);
		flow->number = item.number;
		flow->left = traffic->options->packets_per_flow;
	} else {
		item = (struct weir_bench_item){.number = flow->number,
			.steady = WEIR_BENCH_STEADY_NONE,
			.protocol = IPPROTO_TCP,
			.flags = WEIR_BENCH_ACK | (flow->left == 1 ? WEIR_BENCH_FIN : 0)};
	}
	item.young = (uint16_t)place;
	flow->left--;
	return item;
}

// --- bursts -------------------------------------------------------------------------------

// Returns the share of fresh packets in a burst. In a flood the share is random. It differs from
// the mean by at most min(mean, 1 - mean). Because the shares of bursts differ, the costs of a
// steady packet and of a fresh packet can be computed from the costs of the bursts.
static double share_of_burst(struct weir_bench_traffic *traffic) {
	double mean = traffic->share, room = mean < 0.5 ? mean : 1 - mean;

	if (traffic->options->kind != WEIR_BENCH_CASE_SYN_FLOOD) {
		return mean;
	}
	return mean + room * (2 * weir_bench_random_unit(&traffic->random) - 1);
}

void weir_bench_traffic_burst(
	struct weir_bench_traffic *traffic, struct weir_bench_item *items, uint32_t n, bool alone) {
	double share = alone ? 0 : share_of_burst(traffic);

	for (uint32_t i = 0; i < n; i++) {
		bool steady =
			traffic->steady > 0 && weir_bench_random_unit(&traffic->random) > share;

		if (steady) {
			items[i] = weir_bench_traffic_steady(
				traffic, weir_bench_order_next(&traffic->order), false);
		} else if (traffic->young != NULL) {
			items[i] = young(traffic);
		} else {
			items[i] = fresh(traffic);
		}
	}
}
