// SPDX-License-Identifier: BSD-3-Clause
#include "policy_names.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "nearest.h"
#include "policy.h"

#define WORD_BYTES 64

// Policy names of other load balancers, in lower case and with hyphens, each with the equivalent
// policy of Weir. Names that differ from a policy name of Weir by one or two letters are not
// listed, because weir_nearest() finds them.
static const struct {
	const char *name, *policy;
} others[] = {
	{"leastconn", "least-loaded"}, // HAProxy
	{"static-rr", "weighted-round-robin"},
	{"source", "maglev"},
	{"least-conn", "least-loaded"}, // nginx
	{"ip-hash", "maglev"},
	{"hash", "maglev"},
	{"least-request", "least-loaded"}, // Envoy
	{"ring-hash", "maglev"},
	{"p2c", "power-of-two"}, // Traefik
	{"conhash", "maglev"}, // DPVS
	{"least-connection", "least-loaded"},
	{"least-connections", "least-loaded"},
	{"rr", "round-robin"}, // IPVS
	{"wrr", "weighted-round-robin"},
	{"lc", "least-loaded"},
	{"wlc", "least-loaded"},
	{"sed", "least-loaded"},
	{"nq", "least-loaded"},
	{"sh", "maglev"},
	{"mh", "maglev"},
	{"dh", "maglev"},
	{"lblc", "maglev"},
	{"lblcr", "maglev"},
	{"fo", "maglev"},
	{"ovf", "least-loaded"},
	{"twos", "power-of-two"},
};

const char *weir_config_policy_elsewhere(const char *name) {
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcmp(others[i].name, name) == 0) {
			return others[i].policy;
		}
	}
	return NULL;
}

const char *weir_config_policy_meant(const char *word) {
	const char *names[WEIR_POLICY_COUNT], *meant;
	char name[WORD_BYTES];
	size_t bytes = strlen(word);

	if (bytes >= sizeof(name)) {
		return NULL;
	}
	for (size_t i = 0; i <= bytes; i++) {
		name[i] = word[i] == '_' ? '-' : (char)tolower((unsigned char)word[i]);
	}
	for (int i = 0; i < WEIR_POLICY_COUNT; i++) {
		names[i] = weir_policy_name((enum weir_policy)i);
	}
	meant = weir_config_policy_elsewhere(name);
	return meant != NULL ? meant : weir_nearest(name, names, WEIR_POLICY_COUNT);
}
