// SPDX-License-Identifier: BSD-3-Clause
#include "pipelines.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include <rte_lcore.h>
#include <rte_memory.h>

#include "affinity.h"
#include "eal.h"
#include "flow_parts.h"
#include "pipeline.h"
#include "pipeline_parts.h"
#include "pipeline_setup.h"

static uint64_t all_flows(const struct weir_config *config) {
	return (uint64_t)config->flow_table.flows_per_worker * config->workers.count;
}

bool weir_pipelines_may_share(const struct weir_config *config) {
	return config->workers.count > 1 && all_flows(config) <= WEIR_FLOW_MEMORY_FLOWS_MAX;
}

uint64_t weir_pipelines_flow_bytes(const struct weir_config *config, bool bucketed) {
	const struct weir_config_flow_table *flows = &config->flow_table;
	uint64_t all = all_flows(config);

	if (!bucketed) {
		return config->workers.count *
		       weir_flow_table_bytes(flows->flows_per_worker, flows->ipv6_percent);
	}
	return weir_flow_memory_bytes(all, flows->ipv6_percent, true) +
	       config->workers.count * (weir_flow_table_own_bytes(all, flows->ipv6_percent) +
					       weir_flow_parcel_bytes(all, flows->ipv6_percent,
						       config->segment.max_backends));
}

static int node_of(uint32_t worker) {
	return (int)rte_lcore_to_socket_id(weir_eal_lcore(worker));
}

static int refuse(const struct weir_pipelines_params *params, int error, const char *whose) {
	weir_log_write(params->log, WEIR_LOG_ERROR,
		"cannot allocate the flow table%s (all flow tables need %" PRIu64
		" MiB): lower flow_table.flows_per_worker",
		whose, weir_pipelines_flow_bytes(params->config, params->bucketed) >> 20);
	return error;
}

static struct weir_pipeline_params pipeline_params(const struct weir_pipelines_params *params) {
	const struct weir_config *config = params->config;
	const struct weir_config_flow_table *flows = &config->flow_table;

	return (struct weir_pipeline_params){
		.segment = params->segment,
		.flow_table = {.flows = flows->flows_per_worker,
			.ipv6_percent = flows->ipv6_percent,
			.half_open_percent = flows->half_open_percent,
			.timeout_ms = {[WEIR_FLOW_SYN_SEEN] = flows->syn_seen_ms,
				[WEIR_FLOW_ESTABLISHED] = flows->established_ms,
				[WEIR_FLOW_CLOSING] = flows->closing_ms,
				[WEIR_FLOW_UDP] = flows->udp_ms,
				[WEIR_FLOW_YOUNG] = flows->young_ms,
				[WEIR_FLOW_UDP_SEEN] = flows->udp_seen_ms}},
		.hash_seed = config->instance.hash_seed,
		.icmp = {.echo = config->icmp.echo_per_second,
			.too_big = config->icmp.too_big_per_second,
			.unreachable = config->icmp.unreachable_per_second},
		.fragments = {.entries = config->fragments.entries,
			.timeout_ms = config->fragments.timeout_ms},
		.any_mac_ports = params->any_mac_ports,
		.rss = params->bucketed ? params->rss : NULL,
	};
}

// Allocates the flow memory that all workers share, on the first worker's NUMA node or, if this
// node has too little memory, on another node.
static int create_memory(
	const struct weir_pipelines_params *params, struct weir_flow_memory **ret) {
	const struct weir_config *config = params->config;
	int r = weir_flow_memory_create(
		all_flows(config), config->flow_table.ipv6_percent, true, node_of(0), ret);

	if (r == -ENOMEM) {
		r = weir_flow_memory_create(all_flows(config), config->flow_table.ipv6_percent,
			true, SOCKET_ID_ANY, ret);
	}
	return r;
}

static int create_one(const struct weir_pipelines_params *params,
	const struct weir_pipeline_params *each, struct weir_pipelines *pipelines) {
	uint32_t w = each->worker;
	int r = weir_pipeline_create(each, &pipelines->pipeline[w]);

	if (r == 0 && params->bucketed) {
		r = weir_flow_parcel_create(pipelines->flows, params->config->segment.max_backends,
			each->flow_table.socket, &pipelines->parcel[w]);
	}
	return r;
}

static void own_parts(struct weir_pipelines *pipelines, const uint8_t *first_worker) {
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		weir_pipeline_own_part(pipelines->pipeline[first_worker[part]], part);
	}
}

int weir_pipelines_create(const struct weir_pipelines_params *params, struct weir_pipelines *ret) {
	struct weir_pipeline_params each = pipeline_params(params);
	struct weir_pipelines pipelines = {.workers = params->config->workers.count};
	char whose[32] = "";
	int r;

	if (getrandom(&each.flow_table.secret, sizeof(each.flow_table.secret), 0) !=
		(ssize_t)sizeof(each.flow_table.secret)) {
		weir_log_write(params->log, WEIR_LOG_ERROR, "cannot get a random number: %s",
			strerror(errno));
		return -EIO;
	}
	if (params->bucketed) {
		r = create_memory(params, &pipelines.flows);
		if (r < 0) {
			return refuse(params, r, "");
		}
	}
	if (params->config->flow_table.affinity_sources > 0 &&
		weir_affinity_create(params->config->flow_table.affinity_sources,
			each.flow_table.secret ^ 0x8ebc6af09c88c6e3ull, node_of(0),
			&pipelines.affinity) < 0) {
		weir_flow_memory_free(pipelines.flows);
		weir_log_write(params->log, WEIR_LOG_ERROR,
			"cannot allocate the affinity table: lower flow_table.affinity_sources");
		return -ENOMEM;
	}
	each.affinity = pipelines.affinity;
	each.flow_table.memory = pipelines.flows;
	for (uint32_t w = 0; w < pipelines.workers; w++) {
		each.worker = w;
		each.flow_table.socket = node_of(w);
		r = create_one(params, &each, &pipelines);
		if (r < 0) {
			weir_pipelines_free(&pipelines);
			snprintf(whose, sizeof(whose), " of worker %u", w);
			return refuse(params, r, whose);
		}
	}
	if (params->bucketed) {
		own_parts(&pipelines, params->first_worker);
	}
	*ret = pipelines;
	return 0;
}

void weir_pipelines_abandon(struct weir_pipelines *pipelines) {
	for (uint32_t w = 0; w < pipelines->workers; w++) {
		weir_pipeline_abandon(pipelines->pipeline[w]);
	}
}

void weir_pipelines_free(struct weir_pipelines *pipelines) {
	for (uint32_t w = 0; w < pipelines->workers; w++) {
		weir_flow_parcel_free(pipelines->parcel[w]);
		weir_pipeline_free(pipelines->pipeline[w]);
	}
	weir_affinity_free(pipelines->affinity);
	weir_flow_memory_free(pipelines->flows);
	*pipelines = (struct weir_pipelines){0};
}
