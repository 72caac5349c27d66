// SPDX-License-Identifier: BSD-3-Clause
//
// Converts the reply to metrics.show to the text formats that Prometheus reads. Families that are
// missing in the reply, and series whose value is null, are left out.
//
// Threads: any; the input is only read.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "text.h"

// The input of the families.
struct weir_figures {
	const json_t *own; // values of the process weir-metrics; family_list.c lists the members
	const json_t *control; // result of metrics.show; NULL = no reply of weir-control
};

// Writes all families. openmetrics: true = OpenMetrics 1.0, false = Prometheus text format.
void weir_families_write(struct weir_text *text, const struct weir_figures *figures,
	bool ipvs_names, bool openmetrics);
