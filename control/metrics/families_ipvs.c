// SPDX-License-Identifier: BSD-3-Clause
#include "families_ipvs.h"

#include <stdlib.h>
#include <string.h>

#include "family_text.h"

struct ipvs { // indexes of columns in rows
	const json_t *control;
	int service, binds; // columns in the rows of services
	int of, address, selected, open, active, weight; // columns in the rows of backends
};

// Writes a sum over all workers or all ports. Writes nothing if no row has the value: older
// versions of weir-dataplane do not report ports.
static void write_sum(struct weir_text *text, const struct weir_family *family,
	const json_t *control, bool openmetrics) {
	const json_t *rows =
		json_object_get(control, family->scope == WEIR_SCOPE_PORT ? "ports" : "workers");
	json_int_t sum = 0;
	bool known = false;

	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *value = json_object_get(json_array_get(rows, i), family->key);

		sum += json_integer_value(value);
		known = known || json_is_integer(value);
	}
	if (!known) {
		return;
	}
	weir_family_head(text, family, openmetrics);
	weir_family_name(text, family);
	weir_text_add(text, " ", 1);
	weir_text_integer(text, sum);
	weir_text_add(text, "\n", 1);
}

// Splits a bind such as "tcp 198.51.100.10:80" or "udp [2001:db8::1]:53" into its parts; modifies
// `bind`. If the bind has a range of ports or all ports, the port is "0".
static void split_bind(char *bind, const char **protocol, const char **address, const char **port) {
	char *space = strchr(bind, ' '), *colon = strrchr(bind, ':');

	if (space == NULL || colon == NULL || colon < space) {
		return;
	}
	*space = *colon = '\0';
	*protocol = strcmp(bind, "udp") == 0 ? "UDP" : "TCP";
	*address = space + 1;
	*port = colon[1 + strspn(colon + 1, "0123456789")] == '\0' ? colon + 1 : "0";
	if (**address == '[') {
		(*address)++;
		colon[-1] = '\0'; // overwrites the bracket
	}
}

static void write_labels(
	struct weir_text *text, const struct ipvs *ipvs, const json_t *binds, const json_t *row) {
	const char *protocol = "FWM", *local = "", *port = "0", *mark = "";
	const char *remote = json_string_value(json_array_get(row, (size_t)ipvs->address));
	const char *first = json_string_value(json_array_get(binds, 0));
	char *copy = NULL;

	if (json_array_size(binds) == 1 && first != NULL) {
		copy = strdup(first);
		text->failed = text->failed || copy == NULL;
	} else {
		mark = json_string_value(json_array_get(row, (size_t)ipvs->of));
	}
	if (copy != NULL) {
		split_bind(copy, &protocol, &local, &port);
	}
	weir_family_label(text, "local_address", local, true);
	weir_family_label(text, "local_port", port, false);
	weir_family_label(text, "remote_address", remote != NULL ? remote : "", false);
	// the port of the VIP, as IPVS reports it with direct routing
	weir_family_label(text, "remote_port", port, false);
	weir_family_label(text, "proto", protocol, false);
	weir_family_label(text, "local_mark", mark != NULL ? mark : "", false);
	free(copy);
}

static json_int_t integer(const json_t *row, int column) {
	return column < 0 ? 0 : json_integer_value(json_array_get(row, (size_t)column));
}

// Reads the value of a family from the row of a backend. Returns false if the value is unknown.
static bool value_of(const struct weir_family *family, const struct ipvs *ipvs, const json_t *row,
	json_int_t *ret) {
	if (strcmp(family->key, "effective_weight") == 0) {
		*ret = json_is_true(json_array_get(row, (size_t)ipvs->selected))
			       ? integer(row, ipvs->weight)
			       : 0;
		return true;
	}
	if (!json_is_integer(json_array_get(row, (size_t)ipvs->open))) {
		return false;
	}
	*ret = integer(row, ipvs->open);
	if (strcmp(family->key, "active_flows") == 0) {
		*ret = integer(row, ipvs->active) > *ret ? integer(row, ipvs->active) - *ret : 0;
	}
	return true;
}

// Adds the value of each backend to `sums`, an object {labels: value}. Values with equal labels are
// added up, as in node_exporter, because duplicate series are invalid.
static void collect(
	const struct weir_family *family, const struct ipvs *ipvs, json_t *binds, json_t *sums) {
	const json_t *rows = json_object_get(ipvs->control, "rows");

	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		const char *of = json_string_value(json_array_get(row, (size_t)ipvs->of));
		struct weir_text labels = {0};
		json_int_t value;

		if (!weir_row_is(row, "backend") || of == NULL ||
			!value_of(family, ipvs, row, &value)) {
			continue;
		}
		write_labels(&labels, ipvs, json_object_get(binds, of), row);
		if (!labels.failed) {
			value += json_integer_value(
				json_object_getn(sums, labels.data, labels.bytes));
			json_object_setn_new(sums, labels.data, labels.bytes, json_integer(value));
		}
		free(labels.data);
	}
}

static void write_backends(struct weir_text *text, const struct weir_family *family,
	const struct ipvs *ipvs, json_t *binds, bool openmetrics) {
	json_t *sums = json_object(), *sum;
	const char *labels;

	collect(family, ipvs, binds, sums);
	if (json_object_size(sums) > 0) {
		weir_family_head(text, family, openmetrics);
	}
	json_object_foreach (sums, labels, sum) {
		weir_family_name(text, family);
		weir_text_add(text, "{", 1);
		weir_text_string(text, labels);
		weir_text_add(text, "} ", 2);
		weir_text_integer(text, json_integer_value(sum));
		weir_text_add(text, "\n", 1);
	}
	json_decref(sums);
}

// Returns an object {name of service: its binds}, owned by the caller.
static json_t *binds_of_services(const struct ipvs *ipvs) {
	const json_t *rows = json_object_get(ipvs->control, "rows");
	json_t *binds = json_object();

	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		const char *name = json_string_value(json_array_get(row, (size_t)ipvs->service));

		if (weir_row_is(row, "service") && name != NULL) {
			json_object_set(binds, name, json_array_get(row, (size_t)ipvs->binds));
		}
	}
	return binds;
}

void weir_ipvs_write(struct weir_text *text, const json_t *control, bool openmetrics) {
	struct ipvs ipvs = {.control = control,
		.service = weir_column(control, "service", "service"),
		.binds = weir_column(control, "service", "binds"),
		.of = weir_column(control, "backend", "service"),
		.address = weir_column(control, "backend", "address"),
		.selected = weir_column(control, "backend", "in_selection"),
		.open = weir_column(control, "backend", "open_flows"),
		.active = weir_column(control, "backend", "active_flows"),
		.weight = weir_column(control, "backend", "effective_weight")};
	json_t *binds = binds_of_services(&ipvs);

	for (size_t i = 0; i < weir_ipvs_family_count; i++) {
		if (weir_ipvs_families[i].scope == WEIR_SCOPE_BACKEND) {
			write_backends(text, &weir_ipvs_families[i], &ipvs, binds, openmetrics);
		} else {
			write_sum(text, &weir_ipvs_families[i], control, openmetrics);
		}
	}
	json_decref(binds);
}
