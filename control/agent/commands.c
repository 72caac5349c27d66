// SPDX-License-Identifier: BSD-3-Clause
#include "commands.h"

#include <stdint.h>
#include <string.h>

#define INTERVAL_MAX_MS (24 * 3600 * 1000LL)

static json_t *lame_duck(const struct weir_commands *commands, const json_t *request) {
	const json_t *interval = json_object_get(request, "interval_ms");
	json_int_t interval_ms = json_integer_value(interval);

	if (!json_is_integer(interval) || interval_ms < 0 || interval_ms > INTERVAL_MAX_MS) {
		return json_pack(
			"{s:s}", "error", "interval_ms must be an integer from 0 to 86400000");
	}
	if (commands->announcement->final) {
		return json_pack("{s:s}", "error", "the agent is stopping and already draining");
	}
	weir_announcement_lame_duck(commands->announcement, (uint64_t)interval_ms,
		json_is_true(json_object_get(request, "patient")), "weir-agent lame-duck");
	return commands->status(commands->context);
}

static json_t *ready(const struct weir_commands *commands) {
	if (commands->announcement->final) {
		return json_pack("{s:s}", "error", "the agent is stopping");
	}
	weir_announcement_ready(commands->announcement, "weir-agent ready");
	return commands->status(commands->context);
}

json_t *weir_commands_answer(void *context, const json_t *request) {
	const struct weir_commands *commands = context;
	const char *command = json_string_value(json_object_get(request, "command"));

	if (command != NULL && strcmp(command, "status") == 0) {
		return commands->status(commands->context);
	}
	if (command != NULL && strcmp(command, "lame-duck") == 0) {
		return lame_duck(commands, request);
	}
	if (command != NULL && strcmp(command, "ready") == 0) {
		return ready(commands);
	}
	return json_pack("{s:s}", "error", "unknown command");
}
