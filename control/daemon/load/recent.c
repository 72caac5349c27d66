// SPDX-License-Identifier: BSD-3-Clause
#include "recent.h"

#include <stdlib.h>
#include <string.h>

#include "totals.h"

void weir_recent_fini(struct weir_recent *recent) {
	free(recent->new_flows);
	free(recent->spilled);
	free(recent->rejected);
	*recent = (struct weir_recent){0};
}

// The sum of a counter over all workers since the dataplane started. It includes the counts of
// previous owners of the id.
struct count {
	uint64_t now;
	uint64_t base; // part of `now` counted for previous owners of the id
};

static struct count new_flows_of(const struct weir_segment *segment, uint32_t backend) {
	uint64_t base = segment->backend_bases[backend].new_flows;

	return (struct count){weir_sum_backend(segment, backend).new_flows + base, base};
}

static struct count spilled_of(const struct weir_segment *segment, uint32_t service) {
	uint64_t base = segment->service_bases[service].spilled;

	return (struct count){weir_sum_service(segment, service).spilled + base, base};
}

static struct count rejected_of(const struct weir_segment *segment, uint32_t service) {
	uint64_t base = segment->service_bases[service].rejected;

	return (struct count){weir_sum_service(segment, service).rejected + base, base};
}

static struct count untracked_of(const struct weir_segment *segment) {
	struct count count = {0};

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		count.now += weir_counter_read(&segment->worker_counters[worker].flow_untracked);
	}
	return count;
}

// Adds rows for new ids. All samples of a new row are set to the current count, because its history
// is unknown; its increase is then 0.
static int grow(uint64_t (**rows)[WEIR_RECENT_SAMPLES], uint32_t *count, uint32_t wanted,
	const struct weir_segment *segment,
	struct count (*count_of)(const struct weir_segment *segment, uint32_t id)) {
	uint64_t(*grown)[WEIR_RECENT_SAMPLES];

	if (wanted <= *count) {
		return 0;
	}
	grown = realloc(*rows, wanted * sizeof(*grown));
	if (grown == NULL) {
		return -1;
	}
	for (uint32_t id = *count; id < wanted; id++) {
		uint64_t value = count_of(segment, id).now;

		for (uint32_t sample = 0; sample < WEIR_RECENT_SAMPLES; sample++) {
			grown[id][sample] = value;
		}
	}
	*rows = grown;
	*count = wanted;
	return 0;
}

static uint32_t slice_end(uint32_t count, uint32_t slice) {
	return (uint32_t)((uint64_t)count * (slice + 1) / WEIR_RECENT_SLICES);
}

void weir_recent_take_slice(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services) {
	backends = backends < segment->max_backends ? backends : segment->max_backends;
	services = services < segment->max_services ? services : segment->max_services;
	if (grow(&recent->new_flows, &recent->backends, backends, segment, new_flows_of) < 0 ||
		grow(&recent->rejected, &recent->rejecting, services, segment, rejected_of) < 0 ||
		grow(&recent->spilled, &recent->services, services, segment, spilled_of) < 0) {
		return;
	}
	if (recent->slice == 0) {
		recent->untracked[recent->next] = untracked_of(segment).now;
	}
	for (uint32_t end = slice_end(recent->backends, recent->slice);
		recent->sampled_backends < end; recent->sampled_backends++) {
		recent->new_flows[recent->sampled_backends][recent->next] =
			new_flows_of(segment, recent->sampled_backends).now;
	}
	for (uint32_t end = slice_end(recent->services, recent->slice);
		recent->sampled_services < end; recent->sampled_services++) {
		recent->spilled[recent->sampled_services][recent->next] =
			spilled_of(segment, recent->sampled_services).now;
		recent->rejected[recent->sampled_services][recent->next] =
			rejected_of(segment, recent->sampled_services).now;
	}
	if (++recent->slice < WEIR_RECENT_SLICES) {
		return;
	}
	recent->slice = 0;
	recent->sampled_backends = 0;
	recent->sampled_services = 0;
	recent->next = (recent->next + 1) % WEIR_RECENT_SAMPLES;
	recent->samples += recent->samples < WEIR_RECENT_SAMPLES;
}

void weir_recent_take(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services) {
	do {
		weir_recent_take_slice(recent, segment, backends, services);
	} while (recent->slice != 0);
}

// Returns the increase of a count since a sample, or since the id was assigned to its current
// owner. Returns 0 if the count is lower than the sample, because the dataplane could write any
// value.
static uint64_t since(struct count count, uint64_t then) {
	then = then > count.base ? then : count.base;
	return count.now > then ? count.now - then : 0;
}

// Returns the index of the oldest sample. sampled: the sample in progress already contains the id.
static uint32_t oldest(const struct weir_recent *recent, bool sampled) {
	if (recent->samples < WEIR_RECENT_SAMPLES) {
		return 0;
	}
	return sampled ? (recent->next + 1) % WEIR_RECENT_SAMPLES : recent->next;
}

uint64_t weir_recent_new_flows(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t backend) {
	if (segment == NULL || recent->samples == 0 || backend >= recent->backends ||
		backend >= segment->max_backends) {
		return 0;
	}
	return since(new_flows_of(segment, backend),
		recent->new_flows[backend][oldest(recent, backend < recent->sampled_backends)]);
}

struct weir_recent_limited weir_recent_limited(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t service) {
	uint32_t sample;

	if (segment == NULL || recent->samples == 0 || service >= recent->services ||
		service >= segment->max_services) {
		return (struct weir_recent_limited){0};
	}
	sample = oldest(recent, service < recent->sampled_services);
	return (struct weir_recent_limited){
		.spilled = since(spilled_of(segment, service), recent->spilled[service][sample]),
		.rejected =
			since(rejected_of(segment, service), recent->rejected[service][sample])};
}

uint64_t weir_recent_untracked(
	const struct weir_recent *recent, const struct weir_segment *segment) {
	if (segment == NULL || recent->samples == 0) {
		return 0;
	}
	return since(untracked_of(segment), recent->untracked[oldest(recent, recent->slice > 0)]);
}

// Returns whether half-open flows fill their share of the table, while the other flows do not fill
// the rest. limit: maximum number of flows. percent: the share of half-open flows.
static bool lacks_share(uint64_t half_open, uint64_t others, uint64_t limit, uint32_t percent) {
	const uint64_t share = limit * percent / 100, rest = limit - share;

	return half_open >= share - share / 8 && others < rest - rest / 8;
}

// Returns why packets were forwarded without an entry, estimated from the current numbers of flows.
// Workers count IPv4 and IPv6 flows together, although each family has separate room in the table.
static enum weir_recent_lack judge(
	const struct weir_segment *segment, const struct weir_config_flow_table *table) {
	const uint64_t room = (uint64_t)table->flows_per_worker * segment->workers;
	uint64_t flows = 0, half_open = 0, others;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		const struct weir_worker_counters *counters = &segment->worker_counters[worker];

		flows += weir_counter_read(&counters->flows);
		half_open += weir_counter_read(&counters->flows_half_open);
	}
	others = flows > half_open ? flows - half_open : 0;
	return lacks_share(half_open, others, room, table->half_open_percent) ||
			       lacks_share(half_open, others, room * table->ipv6_percent / 100,
				       table->half_open_percent)
		       ? WEIR_RECENT_LACK_HALF_OPEN
		       : WEIR_RECENT_LACK_TABLE;
}

enum weir_recent_lack weir_recent_lack(const struct weir_recent *recent,
	const struct weir_segment *segment, const struct weir_config_flow_table *table) {
	if (weir_recent_untracked(recent, segment) == 0) {
		return WEIR_RECENT_LACK_NONE;
	}
	return recent->lack != WEIR_RECENT_LACK_NONE ? recent->lack : judge(segment, table);
}

void weir_recent_log_untracked(struct weir_recent *recent, const struct weir_segment *segment,
	const struct weir_config_flow_table *table, struct weir_log *log) {
	const enum weir_recent_lack before = recent->lack;
	const uint64_t untracked = untracked_of(segment).now;
	const bool more = untracked != recent->looked;

	recent->looked = untracked;
	if (weir_recent_untracked(recent, segment) == 0) {
		recent->lack = WEIR_RECENT_LACK_NONE;
	} else if (more || before == WEIR_RECENT_LACK_NONE) {
		const enum weir_recent_lack now = judge(segment, table);

		recent->lack = now > before ? now : before;
	}
	if (recent->lack == WEIR_RECENT_LACK_NONE && before != WEIR_RECENT_LACK_NONE) {
		weir_log_write(log, WEIR_LOG_INFO,
			"the flow table has room: no packet was forwarded without an entry for a "
			"minute");
	} else if (recent->lack > before && recent->lack == WEIR_RECENT_LACK_HALF_OPEN) {
		weir_log_write(log, WEIR_LOG_WARN,
			"the flow table has no room for half-open flows: packets of new flows are "
			"forwarded without an entry; find the flood, or raise "
			"flow_table.half_open_percent or flow_table.flows_per_worker");
	} else if (recent->lack > before) {
		weir_log_write(log, WEIR_LOG_WARN,
			"the flow table is full: packets are forwarded without an entry, and their "
			"flows may break when backends change; raise flow_table.flows_per_worker, "
			"or flow_table.ipv6_percent for IPv6 flows, unless a flood fills the "
			"table");
	}
}
