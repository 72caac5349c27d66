// SPDX-License-Identifier: BSD-3-Clause
#include "capacity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_model.h"

#define WEIGHT_MOST 65535.0 // maximum weight in the configuration
#define WEIGHT_OF_GHZ 10.0 // weight of 1 GHz: 8 CPUs of 3 GHz have weight 240
#define MHZ_OF_GCU 3000.0 // MHz of 1 GCU: 8 CPUs of 1 GCU have weight 240

struct weir_capacity_table {
	uint32_t count;
	struct {
		uint32_t model;
		struct weir_config_gcu row;
	} entry[];
};

int weir_capacity_table_create(const struct weir_config *config, struct weir_capacity_table **ret) {
	struct weir_capacity_table *table =
		calloc(1, sizeof(*table) + config->gcu_count * sizeof(table->entry[0]));

	if (table == NULL) {
		return -ENOMEM;
	}
	table->count = config->gcu_count;
	for (uint32_t i = 0; i < table->count; i++) {
		table->entry[i].model = weir_cpu_model_number(config->gcu[i].cpu);
		table->entry[i].row = config->gcu[i];
	}
	*ret = table;
	return 0;
}

void weir_capacity_table_free(struct weir_capacity_table *table) {
	free(table);
}

struct weir_host_cpus weir_host_cpus_of(const struct weir_report *report) {
	const uint32_t given = report->given;

	return (struct weir_host_cpus){
		.cpus = (given & WEIR_REPORT(CPUS)) != 0 ? report->cpus : 0,
		.mhz = (given & WEIR_REPORT(CPU_MHZ)) != 0 ? report->cpu_mhz : 0,
		.gcu = (given & WEIR_REPORT(GCU)) != 0 ? report->gcu : 0,
		.model = report->cpu_model,
	};
}

static const struct weir_config_gcu *find(const struct weir_capacity_table *table, uint32_t model) {
	for (uint32_t i = 0; table != NULL && model != 0 && i < table->count; i++) {
		if (table->entry[i].model == model) {
			return &table->entry[i].row;
		}
	}
	return NULL;
}

struct weir_capacity weir_capacity_of(
	const struct weir_capacity_table *table, const struct weir_host_cpus *host) {
	const struct weir_config_gcu *row = find(table, host->model);
	struct weir_capacity capacity = {.source = WEIR_CAPACITY_FROM_NONE};

	if (!(host->cpus > 0)) {
		return capacity;
	}
	if (row != NULL) {
		capacity.source = WEIR_CAPACITY_FROM_TABLE;
		capacity.gcu = row->gcu;
		memcpy(capacity.cpu, row->cpu, sizeof(capacity.cpu));
	} else if (host->gcu > 0) {
		capacity.source = WEIR_CAPACITY_FROM_MEASURED;
		capacity.gcu = host->gcu;
	} else if (host->mhz > 0) {
		capacity.source = WEIR_CAPACITY_FROM_FREQUENCY;
		capacity.gcu = host->mhz / MHZ_OF_GCU;
	}
	capacity.cpus = capacity.gcu > 0 ? host->cpus : 0;
	return capacity;
}

uint32_t weir_capacity_weight(const struct weir_capacity *capacity) {
	double ghz = capacity->gcu * MHZ_OF_GCU / 1000;
	double weight = capacity->cpus * ghz * WEIGHT_OF_GHZ;

	return capacity->source == WEIR_CAPACITY_FROM_NONE ? 0
	       : weight < 1                                ? 1
	       : weight > WEIGHT_MOST                      ? (uint32_t)WEIGHT_MOST
							   : (uint32_t)(weight + 0.5);
}

const char *weir_capacity_source_name(enum weir_capacity_source source) {
	static const char *const names[] = {
#define X(name, text) text,
		WEIR_CAPACITY_SOURCES(X)
#undef X
	};

	return names[source];
}
