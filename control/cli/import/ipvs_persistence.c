// SPDX-License-Identifier: BSD-3-Clause
#include "ipvs_persistence.h"

#include <stdio.h>

#define PERSISTENCE_S 300 // default of -p

void weir_ipvs_persistence_read(struct weir_import *import, struct weir_import_service *service,
	const struct weir_import_place *place, uint8_t family, const char *seconds,
	const char *mask) {
	char what[WEIR_IMPORT_TEXT_BYTES];
	uint64_t timeout_s = PERSISTENCE_S;

	if (seconds == NULL) {
		if (mask != NULL) {
			weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, "-M",
				"a netmask has no effect without persistence");
		}
		return;
	}
	if (seconds[0] != '\0' &&
		(!weir_import_number(seconds, WEIR_IMPORT_TIMEOUT_S, &timeout_s) ||
			timeout_s == 0)) {
		weir_import_error(import, place, "-p \"%s\": use a number of seconds from 1 to %u",
			seconds, WEIR_IMPORT_TIMEOUT_S);
		return;
	}
	snprintf(what, sizeof(what), "-p%s%s%s%s", seconds[0] != '\0' ? " " : "", seconds,
		mask != NULL ? " -M " : "", mask != NULL ? mask : "");
	weir_import_persistence(service, place, what, (uint32_t)timeout_s);
	if (mask != NULL && !weir_import_granularity(import, service, place, what, family, mask)) {
		weir_import_error(import, place, "-M \"%s\": use %s", mask,
			family == 6 ? "a prefix length from 1 to 128"
				    : "a netmask such as 255.255.255.0");
	}
}
