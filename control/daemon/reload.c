// SPDX-License-Identifier: BSD-3-Clause
#include "reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct weir_reload {
	char *file;
	struct weir_config *config; // in use
	struct weir_config *as_read; // the dataplane's part of the file; NULL when it is in use
};

static int one_error(struct weir_config_errors *errors, int error, const char *reason) {
	errors->error = calloc(1, sizeof(errors->error[0]));
	if (errors->error == NULL) {
		return -ENOMEM;
	}
	errors->count = 1;
	snprintf(errors->error[0].reason, sizeof(errors->error[0].reason), "%s", reason);
	return error;
}

// A reload comes while the loop runs: it must not wait for the other end of a pipe.
static int read_regular_file(
	const char *file, struct weir_config **ret, struct weir_config_errors *errors) {
	struct stat st;

	if (stat(file, &st) == 0 && !S_ISREG(st.st_mode)) {
		return one_error(errors, -EINVAL, "not a regular file");
	}
	return weir_config_read(file, ret, errors);
}

int weir_reload_create(
	const char *file, struct weir_reload **ret, struct weir_config_errors *errors) {
	struct weir_reload *reload;
	int r;

	*errors = (struct weir_config_errors){0};
	reload = calloc(1, sizeof(*reload));
	if (reload == NULL) {
		return -ENOMEM;
	}
	reload->file = strdup(file);
	if (reload->file == NULL) {
		r = -ENOMEM;
		goto free_reload;
	}
	r = weir_config_read(file, &reload->config, errors);
	if (r < 0) {
		goto free_reload;
	}
	*ret = reload;
	return 0;
free_reload:
	weir_reload_free(reload);
	return r;
}

void weir_reload_free(struct weir_reload *reload) {
	if (reload == NULL) {
		return;
	}
	weir_config_free(reload->config);
	weir_config_free(reload->as_read);
	free(reload->file);
	free(reload);
}

const struct weir_config *weir_reload_config(const struct weir_reload *reload) {
	return reload->config;
}

const char *weir_reload_file(const struct weir_reload *reload) {
	return reload->file;
}

static const struct weir_config_port *find_port(
	const struct weir_config *config, const char *name) {
	for (uint32_t i = 0; i < config->port_count; i++) {
		if (strcmp(config->ports[i].name, name) == 0) {
			return &config->ports[i];
		}
	}
	return NULL;
}

// Put the dataplane's part of `from` into `to`. Returns 0 or -ENOMEM (to is unchanged).
static int take_dataplane_part(struct weir_config *to, const struct weir_config *from) {
	size_t bytes = from->port_count * sizeof(from->ports[0]);
	struct weir_config_port *ports = calloc(1, bytes > 0 ? bytes : 1);

	if (ports == NULL) {
		return -ENOMEM;
	}
	if (bytes > 0) {
		memcpy(ports, from->ports, bytes);
	}
	free(to->ports);
	to->ports = ports;
	to->port_count = from->port_count;
	to->instance = from->instance;
	to->workers = from->workers;
	to->flow_table = from->flow_table;
	to->segment = from->segment;
	return 0;
}

// What of the instance and of a port is control's own follows the file at once.
static void take_own_settings(struct weir_config *to, const struct weir_config *from) {
	to->instance.client_id = from->instance.client_id;
	to->instance.clients = from->instance.clients;
	to->instance.member = from->instance.member;
	to->instance.members = from->instance.members;
	for (uint32_t i = 0; i < to->port_count; i++) {
		struct weir_config_port *port = &to->ports[i];
		const struct weir_config_port *wanted = find_port(from, port->name);

		if (wanted != NULL) {
			port->has_gateway_mac = wanted->has_gateway_mac;
			memcpy(port->gateway_mac, wanted->gateway_mac, sizeof(port->gateway_mac));
			port->source_ipv4 = wanted->source_ipv4;
			port->source_ipv6 = wanted->source_ipv6;
		}
	}
}

static bool needs_restart(const struct weir_difference *difference) {
	for (uint32_t i = 0; i < difference->count; i++) {
		if (difference->change[i].needs_restart) {
			return true;
		}
	}
	return false;
}

int weir_reload_plan(
	const struct weir_reload *reload, const char *file, struct weir_reload_plan *plan) {
	int r;

	*plan = (struct weir_reload_plan){0};
	plan->file = strdup(file != NULL ? file : reload->file);
	if (plan->file == NULL) {
		return one_error(&plan->errors, -ENOMEM, "out of memory");
	}
	r = read_regular_file(plan->file, &plan->config, &plan->errors);
	if (r < 0) {
		return r;
	}
	r = weir_difference_compute(reload->config, plan->config, &plan->difference);
	if (r < 0 || !needs_restart(&plan->difference)) {
		return r;
	}
	// An empty one to keep the dataplane's part in: its services are never looked at.
	plan->as_read = calloc(1, sizeof(*plan->as_read));
	if (plan->as_read == NULL || take_dataplane_part(plan->as_read, plan->config) < 0 ||
		take_dataplane_part(plan->config, reload->config) < 0) {
		return one_error(&plan->errors, -ENOMEM, "out of memory");
	}
	take_own_settings(plan->config, plan->as_read);
	return 0;
}

void weir_reload_plan_fini(struct weir_reload_plan *plan) {
	free(plan->file);
	weir_config_free(plan->config);
	weir_config_free(plan->as_read);
	weir_difference_fini(&plan->difference);
	weir_config_errors_fini(&plan->errors);
	*plan = (struct weir_reload_plan){0};
}

void weir_reload_commit(struct weir_reload *reload, struct weir_reload_plan *plan) {
	weir_config_free(reload->config);
	weir_config_free(reload->as_read);
	free(reload->file);
	reload->config = plan->config;
	reload->as_read = plan->as_read;
	reload->file = plan->file;
	plan->config = NULL;
	plan->as_read = NULL;
	plan->file = NULL;
}

bool weir_reload_dataplane_started(struct weir_reload *reload) {
	if (reload->as_read == NULL || take_dataplane_part(reload->config, reload->as_read) < 0) {
		return false;
	}
	weir_config_free(reload->as_read);
	reload->as_read = NULL;
	return true;
}

const char *weir_config_error_format(
	const char *file, const struct weir_config_error *error, char *buffer, size_t bytes) {
	char place[32] = "";

	if (error->line > 0) {
		snprintf(place, sizeof(place), ":%d:%d", error->line, error->column);
	}
	snprintf(buffer, bytes, "%s%s: %s%s%s", file, place, error->path,
		error->path[0] != '\0' ? ": " : "", error->reason);
	return buffer;
}
