// SPDX-License-Identifier: BSD-3-Clause
//
// The families of node_exporter's IPVS collector, for dashboards and alerts that know those. What
// a virtual service is there, a bind is here; a service with several binds is what IPVS groups by a
// firewall mark. What backends send past the balancer, nobody here has seen: there are no
// node_ipvs_outgoing_*.
//
// Threads: one text is used by one thread.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "text.h"

// control: result of metrics.show, or NULL.
void weir_ipvs_write(struct weir_text *text, const json_t *control, bool openmetrics);
