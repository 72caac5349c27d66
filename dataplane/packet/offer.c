// SPDX-License-Identifier: BSD-3-Clause
#include "offer.h"

#include "pipeline.h"

// Data stored in an offered packet: the port that received the packet, and the number of workers
// that have passed the packet on.
#define PORT(word) ((uint8_t)(word))
#define PASSES(word) ((word) >> 8)

bool weir_offer(struct weir_burst *b, unsigned int i) {
	struct weir_pipeline *pipeline = b->pipeline;
	struct rte_mbuf *m = b->pkts[i];
	uint32_t passes = pipeline->offered ? PASSES(m->hash.usr) : 0;

	if (passes + 1 >= pipeline->offer_workers) {
		return false;
	}
	if (passes == 0) {
		if (!weir_icmp_limit_ready(&pipeline->offer_limit, b->now_ns)) {
			return false;
		}
		weir_icmp_limit_take(&pipeline->offer_limit);
	}
	m->hash.usr = b->in_port | (passes + 1) << 8;
	pipeline->descriptors[i].verdict = (struct weir_verdict){.action = WEIR_ACTION_OFFER,
		.reason = WEIR_REASON_NONE,
		.choice = WEIR_CHOICE_NONE,
		.backend = WEIR_BACKEND_NONE,
		.service = WEIR_SERVICE_NONE};
	return true;
}

void weir_pipeline_offer_to(struct weir_pipeline *pipeline, uint32_t workers) {
	uint32_t others = RTE_MAX(workers, 2u) - 1;

	pipeline->offer_workers = workers;
	weir_icmp_limit_init(&pipeline->offer_limit,
		RTE_MIN((uint32_t)WEIR_OFFERS_PER_SECOND, WEIR_OFFERED_PER_SECOND / others));
}

uint8_t weir_pipeline_offered_port(const struct rte_mbuf *m) {
	return PORT(m->hash.usr);
}
