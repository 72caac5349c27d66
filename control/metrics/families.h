// SPDX-License-Identifier: BSD-3-Clause
//
// From the reply to metrics.show to the text that Prometheus reads, in both of its formats. A
// family of which the reply has nothing, and a series whose value is null, are left out.
//
// Threads: any; the figures are not changed.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "text.h"

struct weir_figures {
	const json_t *own; // object of weir-metrics' own: members as in family_list.c
	const json_t *control; // result of metrics.show, or NULL: weir-control did not answer
};

// openmetrics: as OpenMetrics 1.0 asks for, else the older text format.
void weir_families_write(struct weir_text *text, const struct weir_figures *figures,
	bool ipvs_names, bool openmetrics);
