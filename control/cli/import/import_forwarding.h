// SPDX-License-Identifier: BSD-3-Clause
//
// Import of forwarding methods: chooses the forwarding of a service from the forwarding methods of
// its servers.
//
// Threads: any; no shared state.
#pragma once

#include "import.h"

// Add a note about direct routing or NAT, once per service and method.
void weir_import_forwarding_note(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, const struct weir_import_forwarding *forwarding);

// Set the forwarding of a backend that is being read.
void weir_import_forwarding_set(json_t *backend, const struct weir_import_forwarding *forwarding);
bool weir_import_forwarding_equal(
	const json_t *backend, const struct weir_import_forwarding *forwarding);

// Choose the forwarding of the service: the most frequent mode and GUE port of its backends.
// Afterwards, only backends with another mode have a key "forwarding". Adds a note for each backend
// with another GUE port, because a service has only one GUE port. ret->gue_port: 0 = no backend
// uses GUE.
void weir_import_forwarding_choose(struct weir_import *import, struct weir_import_service *service,
	struct weir_import_forwarding *ret);
