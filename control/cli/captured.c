// SPDX-License-Identifier: BSD-3-Clause
#include "captured.h"

#include <stdio.h>
#include <string.h>

#include "drop_reasons.h"
#include "terminal.h"

#define NAME 80 // bytes of the printed name of a service, backend, port or reason

// --- drop reasons -------------------------------------------------------------------------------

const char *const weir_captured_reasons[] = {
#define X(name, key, text) key,
	WEIR_DROP_REASONS(X)
#undef X
};

const uint32_t weir_captured_reason_count = WEIR_DROP_REASON_COUNT;

static const char *const meanings[] = {
#define X(name, key, text) text,
	WEIR_DROP_REASONS(X)
#undef X
};

// Commands that show details of a drop reason; NULL = "weirctl stats show".
static const char *const looks[WEIR_DROP_REASON_COUNT] = {
	[WEIR_DROP_NO_BACKEND] = "weirctl backend show SERVICE/",
	[WEIR_DROP_NO_NEIGHBOUR] = "weirctl backend show SERVICE/",
	[WEIR_DROP_BACKEND_GONE] = "weirctl service show SERVICE",
	[WEIR_DROP_BACKEND_DOWN] = "weirctl health history SERVICE/",
	[WEIR_DROP_RESET_RATE] = "weirctl health history SERVICE/",
	[WEIR_DROP_FLOW_CONTROL] = "weirctl service show SERVICE",
	[WEIR_DROP_CLOSED_PORT] = "weirctl service show",
	[WEIR_DROP_MTU_EXCEEDED] = "weirctl doctor",
	[WEIR_DROP_NO_EXCEPTION_PORT] = "weirctl port show",
	[WEIR_DROP_EXCEPTION_FULL] = "weirctl port show",
	[WEIR_DROP_TX_FULL] = "weirctl port show",
	[WEIR_DROP_TX_TOO_LONG] = "weirctl port show",
	[WEIR_DROP_FRAME_TOO_LONG] = "weirctl port show",
	[WEIR_DROP_HANDOFF_FULL] = "weirctl worker show",
};

static int find_reason(const char *reason) {
	for (int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		if (strcmp(weir_captured_reasons[i], reason) == 0) {
			return i;
		}
	}
	return -1;
}

const char *weir_captured_reason_meaning(const char *reason) {
	int i = find_reason(reason);

	return i >= 0 ? meanings[i] : NULL;
}

const char *weir_captured_reason_look(const char *reason) {
	int i = find_reason(reason);

	return i >= 0 && looks[i] != NULL ? looks[i] : "weirctl stats show";
}

// --- packets ------------------------------------------------------------------------------------

const char *weir_captured_text(const json_t *packet, const char *key) {
	const char *text = json_string_value(json_object_get(packet, key));

	return text != NULL ? text : "";
}

// Returns the value of a base64 digit, 0 to 63, or -1.
static int sextet(char c) {
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'             ? 62
	       : c == '/'             ? 63
				      : -1;
}

size_t weir_captured_data(const json_t *packet, uint8_t *data, size_t bytes) {
	const char *text = weir_captured_text(packet, "data");
	uint32_t bits = 0, count = 0;
	size_t used = 0;

	for (; *text != '\0' && *text != '=' && used < bytes; text++) {
		int value = sextet(*text);

		if (value < 0) {
			return 0;
		}
		bits = bits << 6 | (uint32_t)value;
		count += 6;
		if (count >= 8) {
			count -= 8;
			data[used++] = (uint8_t)(bits >> count);
		}
	}
	return used;
}

struct verdict { // names of an action, safe for a terminal
	char reason[NAME], service[NAME], backend[NAME], port[NAME];
};

static void read_verdict(const json_t *packet, struct verdict *ret) {
	weir_terminal_text(weir_captured_text(packet, "reason"), ret->reason, NAME);
	weir_terminal_text(weir_captured_text(packet, "service"), ret->service, NAME);
	weir_terminal_text(weir_captured_text(packet, "backend"), ret->backend, NAME);
	weir_terminal_text(weir_captured_text(packet, "out_port"), ret->port, NAME);
}

static const char *choice_text(const char *choice) {
	return strcmp(choice, "flow") == 0        ? " (known flow)"
	       : strcmp(choice, "new") == 0       ? " (new flow)"
	       : strcmp(choice, "untracked") == 0 ? " (not in the flow table)"
	       : strcmp(choice, "replaced") == 0  ? " (backend changed)"
	       : strcmp(choice, "datagram") == 0  ? " (no flow)"
						  : "";
}

static void write_forward(const json_t *packet, const struct verdict *v, char *buffer, size_t n) {
	const char *choice = choice_text(weir_captured_text(packet, "choice"));

	snprintf(buffer, n, "forward%s%s%s%s%s%s%s", v->backend[0] ? " to " : "", v->backend,
		v->service[0] ? " of " : "", v->service, choice, v->port[0] ? " on " : "", v->port);
}

static const char *reply_text(const char *reason) {
	return reason[0] == '\0'                     ? "reply: echo"
	       : strcmp(reason, "mtu_exceeded") == 0 ? "reply: packet too big (mtu_exceeded)"
	       : strcmp(reason, "closed_port") == 0  ? "reply: rejected (closed_port)"
	       : strcmp(reason, "backend_down") == 0 ? "reply: reset (backend_down)"
						     : NULL;
}

const char *weir_captured_verdict(const json_t *packet, char *buffer, size_t bytes) {
	const char *action = weir_captured_text(packet, "action");
	const bool drop = strcmp(action, "drop") == 0, reply = strcmp(action, "reply") == 0;
	const char *answer;
	struct verdict v;
	char head[128];

	read_verdict(packet, &v);
	answer = reply ? reply_text(v.reason) : NULL;
	if (strcmp(action, "forward") == 0) {
		write_forward(packet, &v, buffer, bytes);
	} else if (strcmp(action, "kernel") == 0) {
		snprintf(buffer, bytes, "to the kernel");
	} else if (strcmp(action, "offer") == 0) {
		snprintf(buffer, bytes, "to the next worker");
	} else if (drop || reply) {
		snprintf(head, sizeof(head), "%s: %s", action, v.reason[0] ? v.reason : "-");
		snprintf(buffer, bytes, "%s%s%s%s%s", answer != NULL ? answer : head,
			v.service[0] ? ", service " : "", v.service,
			v.backend[0] ? ", backend " : "", v.backend);
	} else {
		weir_terminal_text(action[0] ? action : "-", buffer, bytes);
	}
	return buffer;
}
