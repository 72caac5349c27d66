// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline_setup.h"

#include <errno.h>

#include <rte_malloc.h>

#include "burst.h"
#include "hash.h"
#include "new_flow.h"
#include "shared_limit.h"

static void *table_create(uint32_t count, size_t bytes, int socket) {
	return rte_zmalloc_socket("pipeline", count * bytes, 128, socket);
}

// Adopt a backend's published row. If the service of the id changes, or the row is withdrawn, the
// state of the id in policies is reset, unless this worker still has flows of the id. Returns false
// for an invalid row. Control assigns an id to another service only after the last flow of the id
// has ended.
static bool adopt_row(void *context, uint16_t id, const struct weir_backend_row *row) {
	struct weir_pipeline *pipeline = context;
	const struct weir_row_head *head = &pipeline->outers[id].head;

	if (!weir_outer_adopt(
		    &pipeline->outers[id], row, id, pipeline->ports, pipeline->max_services)) {
		return false;
	}
	if ((head->flags == 0 || pipeline->owner[id] != head->service) &&
		weir_burst_backend_counters(pipeline, id)->active_flows == 0) {
		weir_new_flow_owner(pipeline, id, head->service);
	} else if (head->flags == 0 || pipeline->owner[id] == head->service) {
		weir_new_flow_follow_row(pipeline, id);
	}
	return true;
}

// Creates the tables that are indexed by backend or by service.
static int tables_create(
	struct weir_pipeline *pipeline, const struct weir_pipeline_params *params) {
	const struct weir_segment *segment = params->segment;
	uint64_t windows_bytes = weir_policy_windows_bytes(segment->max_backends);
	int socket = params->flow_table.socket;
	void *windows = NULL;

	pipeline->owner = table_create(segment->max_backends, sizeof(*pipeline->owner), socket);
	pipeline->outers = table_create(segment->max_backends, sizeof(*pipeline->outers), socket);
	pipeline->clients = table_create(segment->max_services, sizeof(*pipeline->clients), socket);
	pipeline->adopted = table_create(segment->max_services, sizeof(*pipeline->adopted), socket);
	pipeline->policy = (struct weir_policy_worker){
		.backends = table_create(
			segment->max_backends, sizeof(struct weir_policy_backend), socket),
		.cost_ns = segment->costs,
		.backend_count = segment->max_backends,
		.rank = params->worker,
		.ranks = segment->workers,
		.random = weir_hash_mix(segment->epoch, params->worker + 1),
	};
	if (windows_bytes > 0) {
		windows = table_create(1, windows_bytes, socket);
	}
	weir_shared_limit_init(&pipeline->policy, segment->limit_words,
		table_create(segment->max_backends, sizeof(struct weir_limit_part), socket),
		segment->workers);
	if (pipeline->owner == NULL || pipeline->outers == NULL || pipeline->clients == NULL ||
		pipeline->adopted == NULL || pipeline->policy.backends == NULL ||
		pipeline->policy.parts == NULL || (windows == NULL && windows_bytes > 0)) {
		rte_free(windows);
		return -ENOMEM;
	}
	weir_policy_windows_init(&pipeline->policy, windows);
	return 0;
}

static void limits_init(struct weir_pipeline *pipeline, const struct weir_pipeline_params *params) {
	const uint32_t resets =
		params->resets_per_second > 0 ? params->resets_per_second : WEIR_RESETS_PER_SECOND;

	weir_icmp_limit_init(&pipeline->echo_limit, params->icmp.echo);
	weir_icmp_limit_init(&pipeline->too_big_limit, params->icmp.too_big);
	weir_icmp_limit_init(&pipeline->reset_limit, resets);
	weir_icmp_limit_init(&pipeline->challenge_limit, resets);
	weir_icmp_limit_init(&pipeline->unreachable_limit, params->icmp.unreachable);
}

int weir_pipeline_create(const struct weir_pipeline_params *params, struct weir_pipeline **ret) {
	const struct weir_segment *segment = params->segment;
	struct weir_flow_table_params flow_table;
	struct weir_flow_listener listener;
	struct weir_pipeline *pipeline;
	int r;

	if (params->worker >= segment->workers) {
		return -EINVAL;
	}
	pipeline = rte_zmalloc_socket(
		"pipeline", sizeof(*pipeline), RTE_CACHE_LINE_SIZE, params->flow_table.socket);
	if (pipeline == NULL) {
		return -ENOMEM;
	}
	pipeline->segment = segment;
	pipeline->worker = params->worker;
	pipeline->service_counters = weir_segment_service_counters(segment, params->worker, 0);
	pipeline->backend_counters = weir_segment_backend_counters(segment, params->worker, 0);
	pipeline->ports = segment->ports;
	pipeline->outer_id = (uint32_t)weir_hash_mix(segment->epoch, params->worker + 2);
	pipeline->max_services = segment->max_services;
	pipeline->max_backends = segment->max_backends;
	pipeline->hash_keys = weir_hash_keys_of(params->hash_seed);
	pipeline->affinity = params->affinity;
	pipeline->by_rss = params->rss != NULL;
	if (pipeline->by_rss) {
		pipeline->rss = *params->rss;
	}
	limits_init(pipeline, params);
	for (uint32_t i = 0; i < segment->ports; i++) {
		pipeline->macs[i] = weir_parse_mac_of(
			segment->header->port[i].mac, (params->any_mac_ports >> i & 1) != 0);
	}
	r = tables_create(pipeline, params);
	if (r < 0) {
		goto free_pipeline;
	}
	r = weir_reader_init(&pipeline->reader, segment, params->worker, adopt_row, pipeline);
	if (r < 0) {
		goto free_pipeline;
	}
	flow_table = params->flow_table;
	flow_table.hash_seed = params->hash_seed;
	flow_table.given_parts = pipeline->by_rss;
	listener = weir_new_flow_listener(pipeline);
	r = weir_flow_table_create(&flow_table, &listener, &pipeline->flows);
	if (r < 0) {
		goto free_pipeline;
	}
	if (params->fragments.entries > 0) {
		r = weir_fragment_table_create(params->fragments.entries,
			params->fragments.timeout_ms,
			weir_hash_mix(params->flow_table.secret ^ 0x9e3779b97f4a7c15ull,
				params->worker + 0xd1342543de82ef95ull),
			flow_table.socket, &pipeline->fragments);
		if (r < 0) {
			goto free_pipeline;
		}
	}
	*ret = pipeline;
	return 0;

free_pipeline:
	weir_pipeline_free(pipeline);
	return r;
}

uint64_t weir_pipeline_bytes(uint32_t max_services, uint32_t max_backends) {
	const struct weir_pipeline *p = NULL;

	return sizeof(*p) +
	       (uint64_t)max_services * (sizeof(struct weir_selection_view) + sizeof(weir_ref) +
						sizeof(p->clients[0]) + sizeof(p->adopted[0])) +
	       (uint64_t)max_backends *
		       (sizeof(p->owner[0]) + sizeof(p->outers[0]) + sizeof(p->policy.backends[0]) +
			       sizeof(p->policy.parts[0])) +
	       // The reader has two bits per backend.
	       weir_policy_windows_bytes(max_backends) + max_backends / 4;
}

void weir_pipeline_abandon(struct weir_pipeline *pipeline) {
	if (pipeline != NULL && pipeline->reader.segment != NULL) {
		weir_reader_fini(&pipeline->reader);
		pipeline->reader.segment = NULL;
	}
}

void weir_pipeline_free(struct weir_pipeline *pipeline) {
	if (pipeline == NULL) {
		return;
	}
	weir_flow_table_free(pipeline->flows);
	weir_fragment_table_free(pipeline->fragments);
	weir_pipeline_abandon(pipeline);
	rte_free(pipeline->policy.windows.key);
	rte_free(pipeline->policy.parts);
	rte_free(pipeline->policy.backends);
	rte_free(pipeline->adopted);
	rte_free(pipeline->clients);
	rte_free(pipeline->outers);
	rte_free(pipeline->owner);
	rte_free(pipeline);
}
