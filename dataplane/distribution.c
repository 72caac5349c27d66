// SPDX-License-Identifier: BSD-3-Clause
#include "distribution.h"

#include <rte_memory.h>

enum weir_bucketing weir_distribution_bucketing(const struct weir_distributed_port *port,
	uint32_t ports, uint32_t workers, bool may_share) {
	if (workers == 1) {
		return WEIR_BUCKETING_ONE_WORKER;
	}
	for (uint32_t p = 0; p < ports; p++) {
		if (!port[p].distributed) {
			return WEIR_BUCKETING_DEVICE_RSS;
		}
	}
	return may_share ? WEIR_BUCKETING_YES : WEIR_BUCKETING_UNKNOWN;
}

static int create_moves(const struct weir_segment *segment, struct weir_flow_parcel *const *parcel,
	struct weir_distribution *distribution) {
	struct weir_moves_params params = {.workers = segment->workers,
		.distributor = distribution->distributor,
		.ports = distribution->ports,
		.parcel = parcel,
		.socket = SOCKET_ID_ANY};
	int r = weir_moves_create(&params, &distribution->moves);

	for (uint32_t b = 0; b < WEIR_BUCKETS && r == 0; b++) {
		weir_segment_own_bucket(
			segment, b, weir_distributor_first_worker(b, segment->workers));
	}
	return r;
}

int weir_distribution_create(const struct weir_segment *segment,
	const struct weir_distributed_port *port, struct weir_flow_parcel *const *parcel,
	struct weir_distribution *ret) {
	struct weir_distribution made = {.ports = segment->ports};
	int r = 0;

	for (uint32_t p = 0; p < made.ports && r == 0; p++) {
		if (port[p].distributed) {
			r = weir_distributor_create(p, segment->workers, port[p].owner,
				port[p].socket, &made.distributor[p]);
		}
	}
	if (r == 0 && segment->bucketing == WEIR_BUCKETING_YES) {
		r = create_moves(segment, parcel, &made);
	}
	if (r < 0) {
		weir_distribution_free(&made);
		return r;
	}
	*ret = made;
	return 0;
}

void weir_distribution_free(struct weir_distribution *distribution) {
	weir_moves_free(distribution->moves);
	for (uint32_t p = 0; p < distribution->ports; p++) {
		weir_distributor_free(distribution->distributor[p]);
	}
	*distribution = (struct weir_distribution){0};
}
