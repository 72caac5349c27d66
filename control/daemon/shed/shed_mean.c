// SPDX-License-Identifier: BSD-3-Clause
#include "shed_mean.h"

#include <errno.h>

#include "agent_message.h"

#define SECOND_MILLI 1000u // a rate of one connection per second

void weir_shed_sum_add(struct weir_shed_sum *sum, uint64_t flows, uint32_t weight) {
	sum->flows += flows;
	sum->weight += weight;
	sum->backends++;
}

void weir_shed_gone_add(
	struct weir_shed_gone *gone, uint64_t ended, uint64_t now_ms, uint32_t timeout_ms) {
	const uint64_t width_ms = timeout_ms / (WEIR_SHED_GONE_BUCKETS - 1) + 1;
	const uint64_t i = now_ms / width_ms % WEIR_SHED_GONE_BUCKETS;

	if (gone->bucket[i].until_ms <= now_ms) {
		gone->bucket[i].ended = 0;
	}
	gone->bucket[i].ended += ended;
	gone->bucket[i].until_ms = now_ms + timeout_ms;
}

uint64_t weir_shed_gone_count(const struct weir_shed_gone *gone, uint64_t now_ms) {
	uint64_t count = 0;

	for (uint32_t i = 0; i < WEIR_SHED_GONE_BUCKETS; i++) {
		count += gone->bucket[i].until_ms > now_ms ? gone->bucket[i].ended : 0;
	}
	return count;
}

int weir_shed_level(const struct weir_shed_sum *sum, uint64_t flows, uint32_t weight,
	struct weir_shed_level *ret) {
	uint64_t mean;

	if (sum->backends < 2 || sum->weight == 0) {
		return -ENOENT;
	}
	mean = (sum->flows * weight + sum->weight - 1) / sum->weight;
	*ret = (struct weir_shed_level){
		.flows = flows, .mean = mean, .above = flows > mean ? flows - mean : 0};
	return 0;
}

void weir_shed_level_raise(struct weir_shed_level *level, uint64_t mean) {
	if (level->mean < mean) {
		level->mean = mean;
		level->above = level->flows > mean ? level->flows - mean : 0;
	}
}

struct weir_shed_step weir_shed_step(
	uint64_t above, uint64_t left, uint32_t rate_milli_per_s, uint32_t seconds) {
	uint64_t count = (uint64_t)rate_milli_per_s * seconds / SECOND_MILLI;
	struct weir_shed_step step = {.duration_ms = seconds * WEIR_SHED_ORDER_MS};

	if (count == 0) {
		count = 1;
		step.duration_ms = SECOND_MILLI * WEIR_SHED_ORDER_MS / rate_milli_per_s;
	}
	count = count < above ? count : above;
	count = count < left ? count : left;
	step.count =
		(uint32_t)(count < WEIR_AGENT_SHED_COUNT_MOST ? count : WEIR_AGENT_SHED_COUNT_MOST);
	return step;
}
