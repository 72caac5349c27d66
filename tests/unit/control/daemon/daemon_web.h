// SPDX-License-Identifier: BSD-3-Clause
//
// A control process with a dataplane and two services, started once for all tests of a file:
// web (w-1 100, w-2 300) on 198.51.100.10 tcp 80, and dns (w-1 100) on every udp port of
// 198.51.100.11 and on one IPv6 port range.
#pragma once

#include "daemon_lab.h"

#include <stdlib.h>
#include <string.h>

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

static inline int web_stop(void **state) {
	struct web *web = *state;
	int status = lab_stop(&web->lab);

	lab_dataplane_stop(web->dataplane);
	lab_fini(&web->lab);
	free(web);
	return status;
}
