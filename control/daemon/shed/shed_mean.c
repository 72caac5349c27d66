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

struct weir_shed_step weir_shed_step(uint64_t above, uint64_t left, uint32_t rate_milli_per_s) {
	uint64_t count = rate_milli_per_s / SECOND_MILLI;
	struct weir_shed_step step = {.duration_ms = WEIR_SHED_ORDER_MS};

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
