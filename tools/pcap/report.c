// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "plural.h"

struct weir_pcap_report {
	FILE *out;
	bool json;
	uint64_t packets;
	uint64_t actions[WEIR_ACTION_DROP + 1];
	uint64_t drops[WEIR_DROP_REASON_COUNT];
	// Totals by "service/backend", because a reload may assign an id to another backend.
	json_t *backends;
};

// Returns the total of a backend, or NULL if out of memory.
static json_t *total_of(json_t *totals, const char *service, const char *backend) {
	char name[2 * WEIR_NAME_BYTES];
	json_t *total;

	snprintf(name, sizeof(name), "%s/%s", service, backend);
	total = json_object_get(totals, name);
	if (total == NULL) {
		total = json_pack("{s:s, s:s, s:i, s:i}", "service", service, "backend", backend,
			"packets", 0, "new_flows", 0);
		json_object_set_new(totals, name, total);
	}
	return total;
}

static uint64_t value(const json_t *total, const char *key) {
	return (uint64_t)json_integer_value(json_object_get(total, key));
}

static void add(json_t *total, const char *key, uint64_t more) {
	json_integer_set(json_object_get(total, key), (json_int_t)(value(total, key) + more));
}

// Adds the backends of the tables that have no total yet.
static void list_backends(json_t *totals, const struct weir_tables *tables) {
	for (uint32_t id = 0; id < weir_tables_backend_ids(tables); id++) {
		struct weir_backend_state state;

		if (weir_tables_backend(tables, (uint16_t)id, &state) == 0) {
			total_of(totals, state.service, state.name);
		}
	}
}

int weir_pcap_report_begin(
	FILE *out, bool json, const struct weir_tables *tables, struct weir_pcap_report **ret) {
	struct weir_pcap_report *report = calloc(1, sizeof(*report));

	if (report == NULL) {
		return -ENOMEM;
	}
	report->backends = json_object();
	if (report->backends == NULL) {
		free(report);
		return -ENOMEM;
	}
	list_backends(report->backends, tables);
	report->out = out;
	report->json = json;
	if (json) {
		fputs("{\"packets\": [", out);
	}
	*ret = report;
	return 0;
}

static const char *action_name(int action) {
	static const char *const names[] = {
		[WEIR_ACTION_FORWARD] = "forwarded",
		[WEIR_ACTION_REPLY] = "replied",
		[WEIR_ACTION_KERNEL] = "kernel",
		[WEIR_ACTION_DROP] = "dropped",
	};

	return names[action];
}

// Returns why the backend of a forwarded packet was chosen, or the kind of a reply; NULL for other
// packets.
static const char *why(const struct weir_offline_result *result) {
	if (result->action == WEIR_ACTION_FORWARD) {
		return weir_choice_name(result->choice);
	}
	if (result->action == WEIR_ACTION_REPLY) {
		return result->reason == WEIR_REASON_NONE
			       ? (result->choice == WEIR_CHOICE_FLOW ? "challenge" : "echo")
		       : result->reason == WEIR_DROP_MTU_EXCEEDED ? "too_big"
		       : result->reason == WEIR_DROP_BACKEND_DOWN ? "reset"
								  : "rejected";
	}
	return NULL;
}

static const char *reason(const struct weir_offline_result *result) {
	return result->reason == WEIR_REASON_NONE ? NULL : weir_drop_reason_name(result->reason);
}

static json_t *text_or_null(const char *text) {
	return text != NULL ? json_string(text) : json_null();
}

static void print_json(struct weir_pcap_report *report, uint64_t number,
	const struct weir_capture_frame *frame, const struct weir_offline_result *result) {
	json_t *object = json_object();

	json_object_set_new(object, "number", json_integer((json_int_t)number));
	json_object_set_new(object, "time_ns", json_integer((json_int_t)frame->time_ns));
	json_object_set_new(object, "bytes", json_integer(frame->bytes));
	json_object_set_new(object, "captured_bytes", json_integer(frame->captured_bytes));
	json_object_set_new(object, "action", json_string(action_name(result->action)));
	json_object_set_new(object, "service", text_or_null(result->service));
	json_object_set_new(object, "backend", text_or_null(result->backend));
	json_object_set_new(object, "why", text_or_null(why(result)));
	json_object_set_new(object, "reason", text_or_null(reason(result)));
	json_object_set_new(object, "port", text_or_null(result->port));
	json_object_set_new(object, "sent_bytes",
		result->port != NULL ? json_integer(result->sent.bytes) : json_null());
	json_object_set_new(object, "fragments",
		result->fragments > 0 ? json_integer(result->fragments + 1) : json_null());
	fputs(number == 1 ? "\n  " : ",\n  ", report->out);
	json_dumpf(object, report->out, JSON_PRESERVE_ORDER);
	json_decref(object);
}

static void print_line(struct weir_pcap_report *report, uint64_t number,
	const struct weir_capture_frame *frame, const struct weir_offline_result *result) {
	fprintf(report->out, "%" PRIu64 " %s", number, action_name(result->action));
	if (result->service != NULL) {
		fprintf(report->out, " service=%s", result->service);
	}
	if (result->backend != NULL) {
		fprintf(report->out, " backend=%s", result->backend);
	}
	if (why(result) != NULL) {
		fprintf(report->out, " why=%s", why(result));
	}
	if (result->port != NULL) {
		fprintf(report->out, " port=%s", result->port);
	}
	if (result->fragments > 0) {
		fprintf(report->out, " fragments=%" PRIu32, result->fragments + 1);
	}
	if (reason(result) != NULL) {
		fprintf(report->out, " reason=%s (%s)", reason(result),
			weir_drop_reason_text(result->reason));
	}
	if (result->cut) {
		fprintf(report->out, " [truncated: %" PRIu32 " of %" PRIu32 " bytes captured]",
			frame->captured_bytes, frame->bytes);
	}
	fputc('\n', report->out);
}

void weir_pcap_report_packet(struct weir_pcap_report *report, uint64_t number,
	const struct weir_capture_frame *frame, const struct weir_offline_result *result) {
	report->packets++;
	report->actions[result->action]++;
	if (result->action == WEIR_ACTION_DROP) {
		report->drops[result->reason]++;
	}
	if (result->action == WEIR_ACTION_FORWARD && result->backend != NULL) {
		json_t *total = total_of(report->backends, result->service, result->backend);

		add(total, "packets", 1);
		add(total, "new_flows",
			result->choice == WEIR_CHOICE_NEW ||
				result->choice == WEIR_CHOICE_DATAGRAM);
	}
	if (report->json) {
		print_json(report, number, frame, result);
	} else {
		print_line(report, number, frame, result);
	}
}

static json_t *json_drops(const struct weir_pcap_report *report) {
	json_t *drops = json_object();

	for (int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		if (report->drops[i] > 0) {
			json_object_set_new(drops, weir_drop_reason_name(i),
				json_integer((json_int_t)report->drops[i]));
		}
	}
	return drops;
}

static json_t *json_backends(const struct weir_pcap_report *report) {
	json_t *backends = json_array(), *total;
	const char *name;

	json_object_foreach (report->backends, name, total) {
		json_array_append(backends, total);
	}
	return backends;
}

static void end_json(struct weir_pcap_report *report, const char *error) {
	json_t *totals = json_object(), *text = text_or_null(error);

	json_object_set_new(totals, "packets", json_integer((json_int_t)report->packets));
	for (int action = 0; action <= WEIR_ACTION_DROP; action++) {
		json_object_set_new(totals, action_name(action),
			json_integer((json_int_t)report->actions[action]));
	}
	json_object_set_new(totals, "drops", json_drops(report));
	json_object_set_new(totals, "backends", json_backends(report));
	fputs("\n ],\n \"totals\": ", report->out);
	json_dumpf(totals, report->out, JSON_PRESERVE_ORDER);
	fputs(",\n \"error\": ", report->out);
	json_dumpf(text, report->out, JSON_ENCODE_ANY);
	fputs("}\n", report->out);
	json_decref(totals);
	json_decref(text);
}

static void end_lines(struct weir_pcap_report *report) {
	const char *name;
	json_t *total;

	fprintf(report->out,
		"packets %" PRIu64 " = forwarded %" PRIu64 " + replied %" PRIu64
		" + kernel %" PRIu64 " + dropped %" PRIu64 "\n",
		report->packets, report->actions[WEIR_ACTION_FORWARD],
		report->actions[WEIR_ACTION_REPLY], report->actions[WEIR_ACTION_KERNEL],
		report->actions[WEIR_ACTION_DROP]);
	for (int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		if (report->drops[i] > 0) {
			fprintf(report->out, "dropped %" PRIu64 " %s\n", report->drops[i],
				weir_drop_reason_name(i));
		}
	}
	json_object_foreach (report->backends, name, total) {
		uint64_t packets = value(total, "packets"), flows = value(total, "new_flows");

		if (packets > 0) {
			fprintf(report->out,
				"backend %s: %" PRIu64 " packet%s, %" PRIu64 " new flow%s\n", name,
				packets, weir_plural(packets), flows, weir_plural(flows));
		}
	}
}

int weir_pcap_report_end(
	struct weir_pcap_report *report, const struct weir_tables *tables, const char *error) {
	int status;

	list_backends(report->backends, tables);
	if (report->json) {
		end_json(report, error);
	} else {
		end_lines(report);
	}
	status = fflush(report->out) != 0 || ferror(report->out) ? -EIO : 0;
	json_decref(report->backends);
	free(report);
	return status;
}
