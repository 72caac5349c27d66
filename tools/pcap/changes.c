// SPDX-License-Identifier: BSD-3-Clause
#include "changes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "config_difference.h"

static int refuse(const char *file, const struct weir_change *change, char *why, size_t why_bytes) {
	snprintf(why, why_bytes, "%s: %s " WEIR_CHANGE_RESTART "; use the same value as in CONFIG",
		file, change->what);
	return -EINVAL;
}

// Checks that a reload can apply a configuration: settings that the dataplane reads only at its
// start must be unchanged.
static int check_restart(const char *file, const struct weir_config *running,
	const struct weir_config *config, char *why, size_t why_bytes) {
	struct weir_difference difference = {0};
	int r = weir_config_compare(running, config, &difference);

	if (r < 0) {
		snprintf(why, why_bytes, "%s: %s", file, strerror(-r));
	}
	for (uint32_t i = 0; r == 0 && i < difference.count; i++) {
		if (difference.change[i].needs_restart) {
			r = refuse(file, &difference.change[i], why, why_bytes);
		}
	}
	weir_difference_fini(&difference);
	return r;
}

static int read_reload(const struct weir_pcap_change *change, const struct weir_config *running,
	struct weir_config **ret, char *why, size_t why_bytes) {
	struct weir_config_errors errors;
	char file[PATH_MAX];
	int r;

	if (change->file_bytes >= sizeof(file)) {
		snprintf(why, why_bytes, "the file name in --reload is too long");
		return -ENAMETOOLONG;
	}
	memcpy(file, change->file, change->file_bytes);
	file[change->file_bytes] = '\0';
	r = weir_config_read(file, ret, &errors);
	if (r < 0 && errors.count > 0) {
		weir_config_error_format(file, &errors.error[0], why, why_bytes);
	} else if (r < 0) {
		snprintf(why, why_bytes, "%s: %s", file, strerror(-r));
	}
	weir_config_errors_fini(&errors);
	return r < 0 ? r : check_restart(file, running, *ret, why, why_bytes);
}

static bool has_backend(const struct weir_config *config, const struct weir_pcap_change *change) {
	for (uint32_t i = 0; i < config->service_count; i++) {
		const struct weir_config_service *service = &config->services[i];

		if (strcmp(service->name, change->service) != 0) {
			continue;
		}
		for (uint32_t k = 0; k < service->backend_count; k++) {
			if (strcmp(service->backends[k].name, change->backend) == 0) {
				return true;
			}
		}
	}
	return false;
}

// Returns the configuration in use when change `c` is made: the configuration of the last reload
// before this change, or `running`. Changes before the same packet are made in the order of the
// command line.
static const struct weir_config *config_at(const struct weir_config *running,
	const struct weir_pcap_options *options, struct weir_config *const *later, uint32_t c) {
	const struct weir_pcap_change *change = options->change;
	uint32_t packet = 0;

	for (uint32_t i = 0; i < options->changes; i++) {
		bool before = i < c ? change[i].packet <= change[c].packet
				    : change[i].packet < change[c].packet;

		if (later[i] != NULL && before && change[i].packet >= packet) {
			packet = change[i].packet;
			running = later[i];
		}
	}
	return running;
}

int weir_pcap_changes_read(const struct weir_config *running,
	const struct weir_pcap_options *options, struct weir_config *ret[WEIR_PCAP_CHANGES_MAX],
	char *why, size_t why_bytes) {
	for (uint32_t i = 0; i < options->changes; i++) {
		const struct weir_pcap_change *change = &options->change[i];

		if (change->kind == WEIR_PCAP_RELOAD) {
			int r = read_reload(change, running, &ret[i], why, why_bytes);

			if (r < 0) {
				return r;
			}
		}
	}
	for (uint32_t i = 0; i < options->changes; i++) {
		const struct weir_pcap_change *change = &options->change[i];

		if (change->kind != WEIR_PCAP_RELOAD &&
			!has_backend(config_at(running, options, ret, i), change)) {
			snprintf(why, why_bytes,
				"the configuration of packet %u has no backend \"%s/%s\"",
				change->packet, change->service, change->backend);
			return -EINVAL;
		}
	}
	return 0;
}
