// SPDX-License-Identifier: BSD-3-Clause
//
// Import of rules of ipvsadm: the options -p and -M of a service.
#pragma once

#include "import.h"

// Read the options -p and -M of a service. Adds errors for values that ipvsadm refuses, and notes
// about differences. family: family of the service's address, 4 or 6. seconds: value of -p, "" =
// without a value, NULL = no -p. mask: value of -M, NULL = no -M.
void weir_ipvs_persistence_read(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, uint8_t family, const char *seconds,
	const char *mask);
