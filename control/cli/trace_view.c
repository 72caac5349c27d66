// SPDX-License-Identifier: BSD-3-Clause
#include "trace_view.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "captured.h"
#include "frame_text.h"
#include "terminal.h"

#define NAME 80
#define LINE 256
#define FRAME 2048
#define COLUMNS 80
#define INDENT 17 // column of the text of a stage

// Texts about a packet, safe for a terminal.
struct packet {
	const json_t *json;
	const struct weir_trace_known *known;
	json_t *stages;
	char service[NAME], backend[NAME], reason[NAME];
};

static bool is(const struct packet *p, const char *key, const char *text) {
	return strcmp(weir_captured_text(p->json, key), text) == 0;
}

static const char *shown(const struct packet *p, const char *key, char *buffer) {
	return weir_terminal_text(weir_captured_text(p->json, key), buffer, NAME);
}

static void add(struct packet *p, const char *stage, const char *text) {
	json_array_append_new(p->stages, json_pack("{s:s, s:s}", "stage", stage, "text", text));
}

// --- stages -------------------------------------------------------------------------------------

static void add_received(struct packet *p) {
	const json_t *tables = json_object_get(p->json, "tables");
	char line[LINE], port[NAME], adopted[48] = "";

	if (json_is_integer(tables)) {
		snprintf(adopted, sizeof(adopted), ", table version %" JSON_INTEGER_FORMAT,
			json_integer_value(tables));
	}
	snprintf(line, sizeof(line),
		"%" JSON_INTEGER_FORMAT " bytes on %s by worker %" JSON_INTEGER_FORMAT "%s",
		json_integer_value(json_object_get(p->json, "length")), shown(p, "port", port),
		json_integer_value(json_object_get(p->json, "worker")), adopted);
	add(p, "received", line);
}

static void add_distributed(struct packet *p) {
	const json_t *bucket = json_object_get(p->json, "bucket");
	char line[LINE], hash[NAME];

	shown(p, "hash", hash);
	if (hash[0] == '\0') {
		return;
	}
	if (json_is_integer(bucket)) {
		snprintf(line, sizeof(line), "bucket %" JSON_INTEGER_FORMAT ", hash %s",
			json_integer_value(bucket), hash);
	} else {
		snprintf(line, sizeof(line), "hash %s", hash);
	}
	add(p, "distributed", line);
}

static const char *kind_text(const char *kind) {
	static const char *const texts[][2] = {
		{"flow", "packet of a flow"},
		{"echo", "echo request"},
		{"icmp-error", "ICMP error about a packet of a flow"},
		{"other", "not for any service"},
		{"suspect", "invalid if sent to a VIP"},
		{"broken", "malformed"},
		{"fragment-first", "first fragment of a flow's packet"},
		{"fragment", "later fragment, handled like the first fragment"},
		{"offered", "first fragment, already processed by another worker"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(texts[i][0], kind) == 0) {
			return texts[i][1];
		}
	}
	return NULL;
}

static void add_parsed(struct packet *p) {
	const char *text = kind_text(weir_captured_text(p->json, "kind"));
	char line[LINE], kind[NAME], event[NAME], path[NAME];

	shown(p, "kind", kind);
	shown(p, "event", event);
	shown(p, "path", path);
	if (kind[0] == '\0') {
		return; // no pipeline processed the packet
	}
	if (is(p, "path", "fast") && is(p, "event", "data")) {
		event[0] = '\0'; // the fast path does not distinguish data and ACK
	}
	snprintf(line, sizeof(line), "%s%s%s%s%s%s", text != NULL ? text : kind,
		event[0] ? ": " : "", event, path[0] ? "; " : "", path, path[0] ? " path" : "");
	add(p, "parsed", line);
}

static void add_flow_table(struct packet *p) {
	const char *found = is(p, "choice", "flow")        ? "found"
			    : is(p, "choice", "new")       ? "not found; added"
			    : is(p, "choice", "untracked") ? "not found; not added"
			    : is(p, "choice", "replaced")
				    ? "found; the backend no longer accepts the flow"
			    : is(p, "choice", "datagram") ? "not used: the service has no UDP flows"
							  : NULL;
	char line[LINE], state[NAME];

	if (found != NULL) {
		shown(p, "flow_state", state);
		snprintf(line, sizeof(line), "%s%s%s", found, state[0] ? "; now " : "", state);
		add(p, "flow table", line);
	}
}

static void add_selection(struct packet *p) {
	const bool chosen = is(p, "choice", "new") || is(p, "choice", "datagram");
	char line[LINE], policy[NAME], why[LINE] = "";

	weir_terminal_text(weir_captured_text(p->known->service, "policy"), policy, NAME);
	if (p->backend[0] == '\0') {
		return;
	}
	if (is(p, "choice", "flow")) {
		snprintf(why, sizeof(why), ", from the flow table");
	} else if (chosen && policy[0]) {
		snprintf(why, sizeof(why), ", by policy %s", policy);
	} else if (chosen) {
		snprintf(why, sizeof(why), ", by the policy");
	} else if (is(p, "choice", "untracked")) {
		snprintf(why, sizeof(why), ", selected for this packet only");
	} else if (is(p, "choice", "replaced")) {
		snprintf(why, sizeof(why), ", instead of the previous backend");
	}
	snprintf(line, sizeof(line), "%s%s", p->backend, why);
	add(p, "selection", line);
}

// Returns the name of the headers between the outer IP header and the inner packet, or NULL if
// there are none.
static const char *tail_of(const char *forwarding) {
	return strcmp(forwarding, "gue") == 0   ? "GUE"
	       : strcmp(forwarding, "gre") == 0 ? "GRE"
						: NULL;
}

static void add_rewrite(struct packet *p, const uint8_t *data, size_t bytes) {
	const char *forwarding = weir_captured_text(p->known->backend, "forwarding");
	const char *tail = tail_of(forwarding);
	const char *address = weir_captured_text(p->known->backend, "address");
	int version = weir_frame_ip_version(data, bytes);
	char line[LINE], text[NAME];

	if (address[0] == '\0' || version == 0 || !is(p, "action", "forward")) {
		return;
	}
	weir_terminal_text(address, text, NAME);
	if (strcmp(forwarding, "l2") == 0) {
		snprintf(line, sizeof(line), "to the MAC address of %s", text);
	} else {
		snprintf(line, sizeof(line), "IPv%d in %s%sIPv%c, to %s", version,
			tail != NULL ? tail : "", tail != NULL ? " in " : "",
			strchr(address, ':') != NULL ? '6' : '4', text);
	}
	add(p, "rewrite", line);
}

// Add the command that shows details of the packet's drop reason, with the service of the packet.
static void add_look(struct packet *p) {
	const char *look = weir_captured_reason_look(p->reason);
	const char *place = strstr(look, "SERVICE");
	char line[LINE];

	if (place == NULL) {
		snprintf(line, sizeof(line), "see: %s", look);
	} else {
		snprintf(line, sizeof(line), "see: %.*s%s%s", (int)(place - look), look,
			p->service[0] ? p->service : "", place + strlen("SERVICE"));
	}
	add(p, "", line);
}

static void add_reason(struct packet *p, const char *stage, const char *what) {
	const char *meaning = weir_captured_reason_meaning(p->reason);
	char line[LINE];

	snprintf(line, sizeof(line), "%s%s%s%s", what, p->reason, meaning != NULL ? ": " : "",
		meaning != NULL ? meaning : "");
	add(p, stage, line);
	add_look(p);
}

static void add_end(struct packet *p) {
	char line[LINE], port[NAME], verdict[LINE];

	shown(p, "out_port", port);
	if (is(p, "action", "drop")) {
		add_reason(p, "dropped", "");
	} else if (is(p, "action", "reply") && p->reason[0]) {
		add_reason(p, "replied", "");
	} else if (is(p, "action", "forward") || is(p, "action", "reply")) {
		snprintf(line, sizeof(line), "on %s", port[0] ? port : "-");
		add(p, is(p, "action", "reply") ? "replied" : "sent", line);
	} else {
		add(p, "sent", weir_captured_verdict(p->json, verdict, sizeof(verdict)));
	}
}

void weir_trace_explain(json_t *packet, const struct weir_trace_known *known) {
	struct packet p = {.json = packet, .known = known, .stages = json_array()};
	uint8_t data[FRAME];
	size_t bytes = weir_captured_data(packet, data, sizeof(data));
	char headers[LINE];

	shown(&p, "service", p.service);
	shown(&p, "backend", p.backend);
	shown(&p, "reason", p.reason);
	add_received(&p);
	add_distributed(&p);
	add_parsed(&p);
	add_flow_table(&p);
	if (weir_captured_text(packet, "kind")[0] || p.service[0]) {
		add(&p, "service", p.service[0] ? p.service : "none");
	}
	add_selection(&p);
	add_rewrite(&p, data, bytes);
	add_end(&p);
	json_object_set_new(packet, "headers",
		json_string(weir_frame_text(data, bytes, headers, sizeof(headers))));
	json_object_set_new(packet, "stages", p.stages);
}

// --- output -------------------------------------------------------------------------------------

// Print the local time with microseconds, so that users can compare the trace with other captures.
static void print_time(FILE *out, int64_t time_ns) {
	time_t seconds = (time_t)(time_ns / 1000000000);
	struct tm local = {0};
	char clock[16] = "-";

	if (localtime_r(&seconds, &local) != NULL) {
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	}
	fprintf(out, "%s.%06d", clock, (int)(time_ns % 1000000000 / 1000));
}

// Print the text of a stage, broken between words; the second and later lines are indented.
static void print_stage(FILE *out, const char *stage, const char *text) {
	int at = fprintf(out, "    %-*s", INDENT - 5, stage);

	while (*text != '\0') {
		int length = (int)strcspn(text, " ");

		if (at + 1 + length > COLUMNS && at > INDENT) {
			at = fprintf(out, "\n%*s", INDENT - 1, "") - 1;
		}
		at += fprintf(out, " %.*s", length, text);
		text += length;
		text += *text == ' ';
	}
	fputc('\n', out);
}

void weir_trace_print(FILE *out, const json_t *packet, int64_t before_ns) {
	int64_t time_ns = json_integer_value(json_object_get(packet, "time_ns"));
	json_t *stage;
	size_t i;

	fprintf(out, "%s#%-2" JSON_INTEGER_FORMAT " ", before_ns != 0 ? "\n" : "",
		json_integer_value(json_object_get(packet, "number")));
	print_time(out, time_ns);
	if (before_ns != 0) {
		fprintf(out, "  %+.6f", (double)(time_ns - before_ns) / 1e9);
	}
	fprintf(out, "  %s\n", weir_captured_text(packet, "headers"));
	json_array_foreach (json_object_get(packet, "stages"), i, stage) {
		print_stage(
			out, weir_captured_text(stage, "stage"), weir_captured_text(stage, "text"));
	}
}
