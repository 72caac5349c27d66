// SPDX-License-Identifier: BSD-3-Clause
#include "orca.h"

#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "orca_private.h"

#define GOOGLE_WEIGHT_MOST 1000

int weir_orca_json(
	const char *text, size_t bytes, struct weir_report *ret, char why[WEIR_ORCA_WHY_BYTES]) {
	struct orca orca = {.why = why};
	json_t *json = NULL;
	int r;

	if (bytes > WEIR_ORCA_BYTES_MOST) {
		return orca_complain(&orca, "longer than %d bytes", WEIR_ORCA_BYTES_MOST);
	}
	r = orca_read_json(&orca, text, bytes, &json);
	if (r == 0) {
		r = orca_report(&orca, ret);
	}
	json_decref(json);
	return r;
}

static int take_text(struct orca *orca, struct orca_name value, struct weir_report *ret) {
	int r = orca_read_text(orca, value.text, value.bytes);

	return r == 0 ? orca_report(orca, ret) : r;
}

static int take_base64(struct orca *orca, struct orca_name value, struct weir_report *ret) {
	int variant = value.bytes % 4 == 0 ? sodium_base64_VARIANT_ORIGINAL
					   : sodium_base64_VARIANT_ORIGINAL_NO_PADDING;
	uint8_t message[WEIR_ORCA_BYTES_MOST];
	const char *end = NULL;
	size_t bytes = 0;
	int r;

	if (sodium_base642bin(message, sizeof(message), value.text, value.bytes, NULL, &bytes, &end,
		    variant) != 0 ||
		end != value.text + value.bytes) {
		return orca_complain(orca, "bad base64");
	}
	r = orca_read_binary(orca, message, bytes);
	return r == 0 ? orca_report(orca, ret) : r;
}

static struct orca_name after(struct orca_name value, size_t bytes) {
	while (bytes < value.bytes && (value.text[bytes] == ' ' || value.text[bytes] == '\t')) {
		bytes++;
	}
	return (struct orca_name){value.text + bytes, value.bytes - bytes};
}

static int take_metrics(struct orca *orca, struct orca_name value, struct weir_report *ret) {
	struct orca_name form = {value.text, 0};

	while (form.bytes < value.bytes && value.text[form.bytes] != ' ') {
		form.bytes++;
	}
	value = after(value, form.bytes);
	if (orca_same(form, (struct orca_name){"TEXT", 4})) {
		return take_text(orca, value, ret);
	}
	if (orca_same(form, (struct orca_name){"JSON", 4})) {
		return weir_orca_json(value.text, value.bytes, ret, orca->why);
	}
	if (orca_same(form, (struct orca_name){"BIN", 3})) {
		return take_base64(orca, value, ret);
	}
	return orca_complain(
		orca, "unsupported format %.*s", form.bytes < 5 ? (int)form.bytes : 5, form.text);
}

static int take_google(struct orca *orca, struct orca_name value, struct weir_report *ret) {
	double weight = 0;

	for (size_t i = 0; i < value.bytes; i++) {
		if (value.text[i] < '0' || value.text[i] > '9') {
			return orca_complain(orca, "bad weight %.*s", (int)value.bytes, value.text);
		}
		weight = weight * 10 + (value.text[i] - '0');
	}
	if (value.bytes == 0 || weight > GOOGLE_WEIGHT_MOST) {
		return orca_complain(orca, "bad weight %.*s", (int)value.bytes, value.text);
	}
	weir_report_set(ret, WEIR_REPORT_BIT_WEIGHT, weight);
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct orca *orca, struct orca_name value, struct weir_report *ret);
} headers[] = {
	{"endpoint-load-metrics:", take_metrics},
	{"endpoint-load-metrics-bin:", take_base64},
	{"x-load-balancing-endpoint-weight:", take_google},
};

int weir_orca_header(
	const char *line, size_t bytes, struct weir_report *ret, char why[WEIR_ORCA_WHY_BYTES]) {
	struct orca orca = {.why = why};

	while (bytes > 0 && strchr("\r\n \t", line[bytes - 1]) != NULL && line[bytes - 1] != '\0') {
		bytes--;
	}
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		size_t n = strlen(headers[i].name);

		if (bytes < n || strncasecmp(line, headers[i].name, n) != 0) {
			continue;
		}
		if (bytes - n > WEIR_ORCA_BYTES_MOST) {
			return orca_complain(&orca, "longer than %d bytes", WEIR_ORCA_BYTES_MOST);
		}
		n = (size_t)(after((struct orca_name){line, bytes}, n).text - line);
		return headers[i].take(&orca, (struct orca_name){line + n, bytes - n}, ret) == 0
			       ? 1
			       : -EINVAL;
	}
	return 0;
}
