// SPDX-License-Identifier: BSD-3-Clause
//
// Import: converts the persistence of IPVS to affinity, and adds notes about differences of
// persistence and of the scheduler sh.
#pragma once

#include "import.h"

// Returns the affinity of a service as a new reference, or NULL if the service has no persistence,
// or after a failed allocation. Adds notes about the differences. policy: policy of the service.
json_t *weir_import_affinity(struct weir_import *import,
	const struct weir_import_persistence *persistence, const char *policy);

// Add a note if an earlier service has the same servers, and both have the scheduler sh without
// sh-port. IPVS then sends a client to the same server in both services; Weir can send it to two
// different servers.
void weir_import_note_same_servers(
	struct weir_import *import, const struct weir_import_service *service);
