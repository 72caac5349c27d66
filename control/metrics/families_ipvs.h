// SPDX-License-Identifier: BSD-3-Clause
//
// The families of node_exporter's IPVS collector, for existing dashboards and alerts. A service
// with one bind is represented as a virtual service of IPVS, and a service with several binds as a
// firewall mark. With DSR, traffic from the backends does not pass through the balancer, so there
// are no node_ipvs_outgoing_* families.
//
// Threads: a text is used by one thread.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "text.h"

// Write the families. control: result of metrics.show, or NULL.
void weir_ipvs_write(struct weir_text *text, const json_t *control, bool openmetrics);
