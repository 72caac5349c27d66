// SPDX-License-Identifier: BSD-3-Clause
#include "shed_hook.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLES 2 // variables that are added to the environment

// --- the command's input ------------------------------------------------------------------

// Write an address as text. An IPv4-mapped address, which a socket for both families can have, is
// written as an IPv4 address.
static void write_address(uint8_t family, const __be32 *address, char text[INET6_ADDRSTRLEN]) {
	const uint8_t *bytes;
	uint8_t mapped[WEIR_AGENT_RECIPIENT_BYTES];

	weir_agent_recipient(family == AF_INET6 ? 6 : 4, address, mapped);
	if (weir_agent_address_family(mapped, &bytes) == 4) {
		inet_ntop(AF_INET, bytes, text, INET6_ADDRSTRLEN);
	} else {
		inet_ntop(AF_INET6, bytes, text, INET6_ADDRSTRLEN);
	}
}

size_t weir_shed_hook_line(
	const struct weir_shed_connection *connection, char line[WEIR_SHED_HOOK_LINE_BYTES]) {
	char client[INET6_ADDRSTRLEN], vip[INET6_ADDRSTRLEN];

	write_address(connection->family, connection->id.idiag_dst, client);
	write_address(connection->family, connection->id.idiag_src, vip);
	return (size_t)snprintf(line, WEIR_SHED_HOOK_LINE_BYTES, "%s %u %s %u\n", client,
		(unsigned int)ntohs(connection->id.idiag_dport), vip,
		(unsigned int)ntohs(connection->id.idiag_sport));
}

static char *make_lines(
	const struct weir_shed_connection *connections, uint32_t count, size_t *ret_bytes) {
	char *lines = malloc(count * (size_t)WEIR_SHED_HOOK_LINE_BYTES + 1);

	*ret_bytes = 0;
	for (uint32_t i = 0; lines != NULL && i < count; i++) {
		*ret_bytes += weir_shed_hook_line(&connections[i], lines + *ret_bytes);
	}
	return lines;
}

// --- a run --------------------------------------------------------------------------------

static void on_closed(uv_handle_t *handle) {
	struct weir_shed_hook *hook = handle->data;

	if (--hook->handles > 0) {
		return;
	}
	free(hook->lines);
	hook->lines = NULL;
	hook->running = false;
	if (hook->ended != NULL) {
		hook->ended(hook->context, hook->ok);
	}
}

static void close_all(struct weir_shed_hook *hook) {
	uv_handle_t *handles[] = {(uv_handle_t *)&hook->process, (uv_handle_t *)&hook->input,
		(uv_handle_t *)&hook->timer};

	for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
		if (!uv_is_closing(handles[i])) {
			uv_close(handles[i], on_closed);
		}
	}
}

static void on_exit_of_command(uv_process_t *process, int64_t status, int signal_number) {
	struct weir_shed_hook *hook = process->data;

	hook->ok = status == 0 && signal_number == 0;
	if (!hook->ok) {
		weir_log_write(hook->log, WEIR_LOG_ERROR,
			"--shed-hook: the command failed (exit %d, signal %d)", (int)status,
			signal_number);
	}
	close_all(hook);
}

static void on_timeout(uv_timer_t *timer) {
	struct weir_shed_hook *hook = timer->data;

	weir_log_write(hook->log, WEIR_LOG_ERROR,
		"--shed-hook: killing the command, because the command was still running at the "
		"deadline, %llu ms after its start",
		(unsigned long long)hook->timeout_ms);
	kill(-hook->process.pid, SIGKILL); // the process group of the command
}

static void on_written(uv_write_t *write, int status) {
	struct weir_shed_hook *hook = write->data;

	(void)status; // a command may ignore its input
	if (!uv_is_closing((uv_handle_t *)&hook->input)) {
		uv_close((uv_handle_t *)&hook->input, on_closed);
	}
}

// Returns the environment of this process with the variables in `added`, for the command. The
// caller frees the array, but not the strings. NULL = out of memory.
static char **make_environment(char *const added[VARIABLES]) {
	size_t count = 0;
	char **made;

	while (environ[count] != NULL) {
		count++;
	}
	made = calloc(count + VARIABLES + 1, sizeof(*made));
	if (made != NULL) {
		memcpy(made, environ, count * sizeof(*made));
		for (size_t i = 0; i < VARIABLES; i++) {
			made[count + i] = added[i];
		}
	}
	return made;
}

static int spawn(struct weir_shed_hook *hook, char **environment) {
	char shell[] = "/bin/sh", option[] = "-c";
	char *arguments[] = {shell, option, (char *)(uintptr_t)hook->command, NULL};
	uv_stdio_container_t stdio[3] = {
		{.flags = UV_CREATE_PIPE | UV_READABLE_PIPE,
			.data.stream = (uv_stream_t *)&hook->input},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
	};
	const uv_process_options_t options = {
		.exit_cb = on_exit_of_command,
		.file = shell,
		.args = arguments,
		.env = environment,
		.flags = UV_PROCESS_DETACHED, // a separate process group, for on_timeout
		.stdio_count = 3,
		.stdio = stdio,
	};

	return uv_spawn(hook->loop, &hook->process, &options);
}

static void start_handles(struct weir_shed_hook *hook) {
	hook->running = true;
	hook->ok = false;
	hook->handles = 3;
	uv_pipe_init(hook->loop, &hook->input, 0);
	uv_timer_init(hook->loop, &hook->timer);
	hook->process.data = hook->input.data = hook->timer.data = hook->write.data = hook;
}

int weir_shed_hook_run(struct weir_shed_hook *hook, const char *service,
	const struct weir_shed_connection *connections, uint32_t count, uint64_t timeout_ms) {
	char name[32 + WEIR_AGENT_WHY_BYTES], number[32 + 16];
	char *added[VARIABLES] = {name, number}, **environment = make_environment(added);
	uv_buf_t buffer;
	size_t bytes;
	int r;

	snprintf(name, sizeof(name), "WEIR_SHED_SERVICE=%s", service);
	snprintf(number, sizeof(number), "WEIR_SHED_COUNT=%u", count);
	hook->lines = make_lines(connections, count, &bytes);
	if (environment == NULL || hook->lines == NULL) {
		free(environment);
		free(hook->lines);
		hook->lines = NULL;
		weir_log_write(hook->log, WEIR_LOG_ERROR, "--shed-hook: out of memory");
		return -ENOMEM;
	}
	hook->runs++;
	start_handles(hook);
	r = spawn(hook, environment);
	free(environment);
	if (r < 0) {
		weir_log_write(hook->log, WEIR_LOG_ERROR, "--shed-hook: cannot run /bin/sh: %s",
			strerror(-r));
		close_all(hook);
		return 0; // on_closed calls `ended` later
	}
	hook->timeout_ms = timeout_ms;
	uv_timer_start(&hook->timer, on_timeout, timeout_ms, 0);
	buffer = uv_buf_init(hook->lines, (unsigned int)bytes);
	if (uv_write(&hook->write, (uv_stream_t *)&hook->input, &buffer, 1, on_written) < 0) {
		uv_close((uv_handle_t *)&hook->input, on_closed);
	}
	return 0;
}

// --- start and stop -----------------------------------------------------------------------

void weir_shed_hook_init(uv_loop_t *loop, struct weir_log *log, const char *command,
	void (*ended)(void *context, bool ok), void *context, struct weir_shed_hook *ret) {
	*ret = (struct weir_shed_hook){
		.loop = loop, .log = log, .command = command, .ended = ended, .context = context};
}

void weir_shed_hook_stop(struct weir_shed_hook *hook) {
	hook->ended = NULL;
	if (hook->running) {
		close_all(hook);
	}
}
