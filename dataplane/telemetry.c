// SPDX-License-Identifier: BSD-3-Clause
#define ALLOW_EXPERIMENTAL_API // rte_lcore_register_usage_cb
#include "telemetry.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_lcore.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include "drop_reasons.h"
#include "eal.h"

#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define add_number rte_tel_data_add_dict_uint
#define HAS_USAGE 1
#else
#define add_number rte_tel_data_add_dict_u64
#define HAS_USAGE 0
#endif

// DPDK passes no context to a command. main writes this struct and DPDK's threads read it, both
// with the lock held.
static struct {
	pthread_mutex_t lock;
	const struct weir_segment *segment; // NULL = the commands are not served now
	const struct weir_config *config;
} source = {.lock = PTHREAD_MUTEX_INITIALIZER};

// A function that adds the result of a command to a dictionary. Called while `source` is locked.
// Returns 0 or negative errno.
typedef int (*fill)(const char *params, struct rte_tel_data *data);

static int answer(fill how, const char *params, struct rte_tel_data *data) {
	int r = -ENODEV;

	pthread_mutex_lock(&source.lock);
	if (source.segment != NULL) {
		rte_tel_data_start_dict(data);
		r = how(params, data);
	}
	pthread_mutex_unlock(&source.lock);
	return r;
}

// --- commands -------------------------------------------------------------------------------

static int fill_summary(uint32_t worker, struct rte_tel_data *data) {
	const struct weir_worker_counters *counters = &source.segment->worker_counters[worker];

	rte_tel_data_start_dict(data);
	add_number(data, "core", source.config->workers.cores[worker]);
#define FIELD(name) add_number(data, #name, weir_counter_read(&counters->name))
	FIELD(busy_cycles);
	FIELD(idle_cycles);
	FIELD(rx_packets);
	FIELD(tx_packets);
	FIELD(dropped);
	return FIELD(flows);
#undef FIELD
}

static int fill_workers(const char *params, struct rte_tel_data *data) {
	char name[16];
	int r = 0;

	(void)params;
	for (uint32_t w = 0; w < source.segment->workers && r == 0; w++) {
		struct rte_tel_data *worker = rte_tel_data_alloc();

		if (worker == NULL) {
			return -ENOMEM;
		}
		snprintf(name, sizeof(name), "%u", w);
		r = fill_summary(w, worker);
		if (r == 0) {
			r = rte_tel_data_add_dict_container(data, name, worker, 0);
		}
		if (r != 0) {
			rte_tel_data_free(worker);
		}
	}
	return r;
}

static int fill_worker(const char *params, struct rte_tel_data *data) {
	const struct weir_worker_counters *counters;
	unsigned long worker;
	char *end;

	if (params == NULL || params[0] < '0' || params[0] > '9') {
		return -EINVAL;
	}
	worker = strtoul(params, &end, 10);
	if (*end != '\0' || worker >= source.segment->workers) {
		return -EINVAL;
	}
	counters = &source.segment->worker_counters[worker];
	add_number(data, "core", source.config->workers.cores[worker]);
#define X(field, unit, metric, text) add_number(data, #field, weir_counter_read(&counters->field));
	WEIR_WORKER_FIGURES(X)
#undef X
	return 0;
}

static int fill_flows(const char *params, struct rte_tel_data *data) {
	uint64_t flows = 0, half_open = 0, begun = 0, untracked = 0, expired = 0, evicted = 0;

	(void)params;
	for (uint32_t w = 0; w < source.segment->workers; w++) {
		const struct weir_worker_counters *counters = &source.segment->worker_counters[w];

		flows += weir_counter_read(&counters->flows);
		half_open += weir_counter_read(&counters->flows_half_open);
		begun += weir_counter_read(&counters->flow_new);
		untracked += weir_counter_read(&counters->flow_untracked);
		expired += weir_counter_read(&counters->flow_expired);
		evicted += weir_counter_read(&counters->flow_half_open_evicted) +
			   weir_counter_read(&counters->flow_idle_evicted);
	}
	add_number(data, "capacity",
		(uint64_t)source.config->flow_table.flows_per_worker * source.segment->workers);
	add_number(data, "flows", flows);
	add_number(data, "half_open", half_open);
	add_number(data, "new", begun);
	add_number(data, "untracked", untracked);
	add_number(data, "expired", expired);
	return add_number(data, "evicted", evicted);
}

static int fill_drops(const char *params, struct rte_tel_data *data) {
	(void)params;
	for (int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		uint64_t drops = 0;

		for (uint32_t w = 0; w < source.segment->workers; w++) {
			drops += weir_counter_read(&source.segment->worker_counters[w].drops[i]);
		}
		add_number(data, weir_drop_reason_name((enum weir_drop_reason)i), drops);
	}
	return 0;
}

// The commands of Weir on DPDK's telemetry socket. X(name, "command", "help")
#define COMMANDS(X) \
	X(workers, "/weir/workers", "Busy and idle cycles, packets and flows of each worker.") \
	X(worker, "/weir/worker", "Counters of a worker. Parameter: number of the worker.") \
	X(flows, "/weir/flows", "Flow counters, summed over all workers. No parameters.") \
	X(drops, "/weir/drops", "Packets dropped, by reason. No parameters.")

#define X(name, command, help) \
	static int answer_##name(const char *cmd, const char *params, struct rte_tel_data *data) { \
		(void)cmd; \
		return answer(fill_##name, params, data); \
	}
COMMANDS(X)
#undef X

#if HAS_USAGE
static int usage(unsigned int lcore, struct rte_lcore_usage *ret) {
	int r = -1;

	pthread_mutex_lock(&source.lock);
	if (source.segment != NULL && lcore >= weir_eal_lcore(0) &&
		lcore - weir_eal_lcore(0) < source.segment->workers) {
		const struct weir_worker_counters *counters =
			&source.segment->worker_counters[lcore - weir_eal_lcore(0)];

		ret->busy_cycles = weir_counter_read(&counters->busy_cycles);
		ret->total_cycles = ret->busy_cycles + weir_counter_read(&counters->idle_cycles);
		r = 0;
	}
	pthread_mutex_unlock(&source.lock);
	return r;
}
#endif

// --- begin and end --------------------------------------------------------------------------

int weir_telemetry_register(void) {
	int r = 0;

#define X(name, command, help) \
	if (r == 0) { \
		r = rte_telemetry_register_cmd(command, answer_##name, help); \
	}
	COMMANDS(X)
#undef X
#if HAS_USAGE
	rte_lcore_register_usage_cb(usage);
#endif
	return r;
}

void weir_telemetry_begin(const struct weir_segment *segment, const struct weir_config *config) {
	pthread_mutex_lock(&source.lock);
	source.segment = segment;
	source.config = config;
	pthread_mutex_unlock(&source.lock);
}

void weir_telemetry_end(void) {
	weir_telemetry_begin(NULL, NULL);
}
