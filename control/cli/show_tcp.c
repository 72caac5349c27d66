// SPDX-License-Identifier: BSD-3-Clause
#include "show_tcp.h"

#include <math.h>
#include <string.h>

#include "show_narrow.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// Add value * scale to a row as text, with three significant digits (all integer digits if above
// 999), at most four decimals, and no exponent: "0.0421", "20.1", "1834". Adds nothing if value is
// not a number.
static void set_number(json_t *row, const char *key, const json_t *value, double scale) {
	const double number = json_number_value(value) * scale;
	const int digits = number > 0 ? 2 - (int)floor(log10(number)) : 1;
	char text[32];

	if (json_is_number(value)) {
		snprintf(text, sizeof(text), "%.*f",
			digits < 0   ? 0
			: digits > 4 ? 4
				     : digits,
			number);
		json_object_set_new(row, key, json_string(text));
	}
}

static void set_connections(json_t *row, const json_t *family, bool partial) {
	json_int_t count = json_integer_value(json_object_get(family, "connections"));

	json_object_set_new(row, "connections",
		json_sprintf("%" JSON_INTEGER_FORMAT "%s", count, partial ? "+" : ""));
}

static void add_row(json_t *rows, const json_t *backend, const json_t *tcp, const char *clients) {
	const json_t *family = clients != NULL ? json_object_get(tcp, clients) : NULL;
	json_t *row = json_object();

	json_object_set(row, "service", json_object_get(backend, "service"));
	json_object_set(row, "name", json_object_get(backend, "label"));
	json_object_set(row, "age_ms", json_object_get(tcp, "age_ms"));
	if (family != NULL) {
		json_object_set_new(row, "clients", json_string(clients));
		set_connections(row, family, json_is_true(json_object_get(tcp, "partial")));
		set_number(row, "rtt", json_object_get(family, "rtt_median_us"), 1e-3);
		set_number(row, "p99", json_object_get(family, "rtt_p99_us"), 1e-3);
		set_number(
			row, "retransmitted", json_object_get(family, "retransmitted_percent"), 1);
		set_number(row, "sent", json_object_get(family, "sent_bytes_per_second"), 8e-6);
		set_number(row, "rate", json_object_get(family, "delivery_rate_bytes_per_second"),
			8e-6);
	}
	json_array_append_new(rows, row);
}

static void add_backend(json_t *rows, const json_t *backend) {
	static const char *const families[] = {"ipv4", "ipv6"};
	const json_t *tcp = json_object_get(backend, "tcp");
	size_t before = json_array_size(rows);

	if (!json_is_object(tcp)) {
		return;
	}
	for (size_t i = 0; i < COUNT(families); i++) {
		if (json_is_object(json_object_get(tcp, families[i]))) {
			add_row(rows, backend, tcp, families[i]);
		}
	}
	if (json_array_size(rows) == before) {
		add_row(rows, backend, tcp, NULL);
	}
}

void weir_show_tcp(FILE *out, const json_t *backends, uint32_t width) {
	static const struct weir_show_choice choices[] = {
		{{"SERVICE", "service", WEIR_SHOW_TEXT}, NULL, 0},
		{{"BACKEND", "name", WEIR_SHOW_TEXT}, NULL, 0},
		{{"CLIENTS", "clients", WEIR_SHOW_TEXT}, NULL, 0},
		{{"CONNECTIONS", "connections", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"RTT-MS", "rtt", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"P99-MS", "p99", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"RETRANS-%", "retransmitted", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"SENT-MBIT/S", "sent", WEIR_SHOW_NUMBER}, NULL, 2},
		{{"RATE-MBIT/S", "rate", WEIR_SHOW_NUMBER}, NULL, 3},
		{{"AGE", "age_ms", WEIR_SHOW_DURATION}, NULL, 1},
	};
	json_t *rows = json_array(), *sorted = weir_show_by_service(backends), *backend;
	size_t i;

	weir_show_add_labels(sorted, "name");
	json_array_foreach (sorted, i, backend) {
		add_backend(rows, backend);
	}
	weir_show_narrow(out, rows, choices, COUNT(choices),
		"no backend whose service has \"agent\": {\"tcp\": true}", width);
	json_decref(rows);
	json_decref(sorted);
}
