// SPDX-License-Identifier: BSD-3-Clause
//
// A control process with a dataplane and two services, started once for all tests of a file.
// Service web has backends w-1 (weight 100) and w-2 (weight 300), on TCP port 80 of
// 198.51.100.10. Service dns has backend w-1 (weight 100), on every UDP port of 198.51.100.11 and
// on one IPv6 port range.
#pragma once

#include "daemon_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WEB_SERVICES \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"backends\": [" \
	"{\"name\": \"w-1\", \"address\": \"10.0.1.11\", \"weight\": 100}, " \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\", \"weight\": 300}]}"
#define DNS_SERVICE \
	"{\"name\": \"dns\", \"binds\": [{\"address\": \"198.51.100.11\", " \
	"\"protocol\": \"udp\", \"port\": 0}, {\"address\": \"2001:db8::11\", " \
	"\"protocol\": \"udp\", \"port_first\": 53, \"port_last\": 54}], " \
	"\"table_size\": 251, \"backends\": [{\"name\": \"w-1\", \"address\": \"10.0.1.13\"}]}"

#define KEY_1 "1 3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c\n"

struct web {
	struct lab lab;
	struct lab_dataplane *dataplane;
};

static inline int web_start(void **state) {
	struct web *web = calloc(1, sizeof(*web));

	lab_init(&web->lab);
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	lab_start(&web->lab);
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	*state = web;
	return 0;
}

// Write a configuration in which only the service web has agents. Their key file is "keys" in the
// folder of the lab.
static inline void web_write_agents(const struct web *web) {
	lab_write(web->lab.config,
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", "
		"\"gateway_mac\": \"02:00:00:00:00:01\", \"source_ipv4\": \"192.0.2.1\"}], "
		"\"workers\": {\"cores\": [0, 1]}, \"agents\": {\"key_file\": \"%s/keys\"}, "
		"\"services\": [{\"name\": \"web\", \"binds\": [{\"address\": "
		"\"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80}], \"table_size\": "
		"1009, \"agent\": {}, \"backends\": [{\"name\": \"w-1\", \"address\": "
		"\"10.0.1.11\"}]}, " DNS_SERVICE "]}",
		web->lab.dir);
}

// Returns the warning of a reload about the keys, if there is one, else "".
static inline const char *web_reload_warning(const struct web *web, char text[512]) {
	json_t *result = lab_result(&web->lab, "{\"command\": \"config.reload\"}"), *one;
	size_t i;

	text[0] = '\0';
	json_array_foreach (json_object_get(result, "warnings"), i, one) {
		const char *path = json_string_value(json_object_get(one, "path"));

		if (strcmp(path, "agents.key_file") == 0) {
			assert_string_equal(text, ""); // there is only one such warning
			snprintf(
				text, 512, "%s", json_string_value(json_object_get(one, "reason")));
		}
	}
	json_decref(result);
	return text;
}

static inline void web_write_keys(const struct web *web, const char *text, mode_t mode) {
	char path[96];

	snprintf(path, sizeof(path), "%s/keys", web->lab.dir);
	lab_write(path, "%s", text);
	assert_int_equal(chmod(path, mode), 0);
}

static inline int web_stop(void **state) {
	struct web *web = *state;
	int status = lab_stop(&web->lab);

	lab_dataplane_stop(web->dataplane);
	lab_fini(&web->lab);
	free(web);
	return status;
}
