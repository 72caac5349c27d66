// SPDX-License-Identifier: BSD-3-Clause
#include "distribution.h"

#include <string.h>

#include <rte_common.h>
#include <rte_memory.h>

#include "worker.h"

// --- the plan -----------------------------------------------------------------------------

static bool same_key(const struct weir_rss_key *key, const struct weir_rss_key *other) {
	return memcmp(key->bytes, other->bytes, sizeof(key->bytes)) == 0;
}

enum weir_bucketing weir_distribution_bucketing(const struct weir_distributed_port *port,
	uint32_t ports, uint32_t workers, bool may_share) {
	const struct weir_rss_key *key = weir_distribution_key(port, ports);

	if (workers == 1) {
		return WEIR_BUCKETING_ONE_WORKER;
	}
	for (uint32_t p = 0; p < ports; p++) {
		if (!port[p].distributed && !port[p].by_queue) {
			return port[p].why != WEIR_BUCKETING_UNKNOWN ? port[p].why
								     : WEIR_BUCKETING_DEVICE_RSS;
		}
		if (port[p].by_queue && !same_key(port[p].key, key)) {
			return WEIR_BUCKETING_RSS_KEYS;
		}
	}
	return may_share ? WEIR_BUCKETING_YES : WEIR_BUCKETING_UNKNOWN;
}

const struct weir_rss_key *weir_distribution_key(
	const struct weir_distributed_port *port, uint32_t ports) {
	for (uint32_t p = 0; p < ports; p++) {
		if (port[p].by_queue) {
			return port[p].key;
		}
	}
	return NULL;
}

uint32_t weir_distribution_first_worker(const struct weir_distributed_port *port, uint32_t ports,
	uint32_t workers, uint32_t bucket) {
	uint32_t entries = WEIR_BUCKETS;

	for (uint32_t p = 0; p < ports; p++) {
		if (port[p].by_queue) {
			entries = RTE_MIN(entries, (uint32_t)port[p].table_entries);
		}
	}
	return weir_distributor_first_worker(bucket & (entries - 1), workers);
}

uint16_t weir_distribution_queue_of(
	const struct weir_distributed_port *port, uint32_t workers, uint32_t worker) {
	return (uint16_t)((worker + workers - port->owner) % workers % port->queues);
}

// --- set-up -------------------------------------------------------------------------------

static int add(const struct weir_segment *segment, const struct weir_distributed_port *port,
	uint32_t queue, uint32_t number, struct weir_distribution *distribution) {
	return weir_distributor_create(number, segment->workers,
		weir_distribution_receiver(port, segment->workers, queue), port->socket,
		&distribution->distributor[number]);
}

static int create_distributors(const struct weir_segment *segment,
	const struct weir_distributed_port *port, struct weir_distribution *distribution) {
	bool bucketed = segment->bucketing == WEIR_BUCKETING_YES;
	int r = 0;

	distribution->distributors = distribution->ports;
	for (uint32_t p = 0; p < distribution->ports && r == 0; p++) {
		if (port[p].distributed || (port[p].by_queue && bucketed)) {
			r = add(segment, &port[p], 0, p, distribution);
		}
	}
	for (uint32_t p = 0; p < distribution->ports && r == 0; p++) {
		if (!bucketed || !port[p].by_queue) {
			continue;
		}
		distribution->further[p] = distribution->distributors;
		for (uint32_t q = 1; q < port[p].queues && r == 0; q++) {
			r = add(segment, &port[p], q, distribution->distributors++, distribution);
		}
	}
	return r;
}

static int create_moves(const struct weir_segment *segment,
	const struct weir_distributed_port *port, struct weir_flow_parcel *const *parcel,
	struct weir_distribution *distribution) {
	struct weir_moves_params params = {.workers = segment->workers,
		.distributor = distribution->distributor,
		.distributors = distribution->distributors,
		.parcel = parcel,
		.socket = SOCKET_ID_ANY};

	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		uint32_t worker = weir_distribution_first_worker(
			port, distribution->ports, segment->workers, b);

		for (uint32_t d = 0; d < distribution->distributors; d++) {
			distribution->distributor[d]->worker[b] = (uint8_t)worker;
		}
		weir_segment_own_bucket(segment, b, worker);
	}
	return weir_moves_create(&params, &distribution->moves);
}

int weir_distribution_create(const struct weir_segment *segment,
	const struct weir_distributed_port *port, struct weir_flow_parcel *const *parcel,
	struct weir_distribution *ret) {
	struct weir_distribution made = {.ports = segment->ports};
	int r = create_distributors(segment, port, &made);

	if (r == 0 && segment->bucketing == WEIR_BUCKETING_YES) {
		r = create_moves(segment, port, parcel, &made);
	}
	if (r < 0) {
		weir_distribution_free(&made);
		return r;
	}
	*ret = made;
	return 0;
}

int weir_distribution_connect(const struct weir_distribution *distribution, uint32_t port,
	uint16_t queues, struct weir_worker *const *worker, uint32_t workers) {
	uint32_t distributors = distribution->further[port] != 0 ? queues : 1;
	int r = 0;

	for (uint32_t q = 0; q < distributors; q++) {
		struct weir_distributor *distributor = weir_distribution_of(distribution, port, q);

		for (uint32_t w = 0; w < workers && r == 0; w++) {
			struct weir_source source = {.kind = WEIR_SOURCE_HANDED,
				.port = (uint8_t)port,
				.distributor = distributor};

			if (distributor == NULL || distributor->ring[w] == NULL) {
				continue;
			}
			source.ring = distributor->ring[w];
			r = weir_worker_add_source(worker[w], &source);
		}
	}
	return r;
}

void weir_distribution_free(struct weir_distribution *distribution) {
	weir_moves_free(distribution->moves);
	for (uint32_t d = 0; d < distribution->distributors; d++) {
		weir_distributor_free(distribution->distributor[d]);
	}
	*distribution = (struct weir_distribution){0};
}
