// SPDX-License-Identifier: BSD-3-Clause
#include "warm_up.h"

#include <signal.h>
#include <unistd.h>

static void on_warm(uv_process_t *process, int64_t status, int signal_number) {
	struct weir_warm_up *warm_up = process->data;

	uv_close((uv_handle_t *)process, NULL);
	if (warm_up->announcement->word != WEIR_HEALTH_WORD_STARTING) {
		return;
	}
	if (status == 0 && signal_number == 0) {
		weir_announcement_ready(warm_up->announcement, "warm-up complete");
	} else {
		weir_log_write(warm_up->log, WEIR_LOG_ERROR,
			"--warm-up: the command failed (exit %d, signal %d): state stays "
			"\"starting\" until you run weir-agent ready",
			(int)status, signal_number);
	}
}

int weir_warm_up_start(uv_loop_t *loop, const char *command, struct weir_log *log,
	struct weir_announcement *announcement, struct weir_warm_up *ret) {
	char shell[] = "/bin/sh", option[] = "-c";
	char *arguments[] = {shell, option, (char *)(uintptr_t)command, NULL};
	uv_stdio_container_t stdio[3] = {
		{.flags = UV_IGNORE},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
	};
	const uv_process_options_t options = {
		.exit_cb = on_warm,
		.file = shell,
		.args = arguments,
		.stdio_count = 3,
		.stdio = stdio,
	};

	ret->log = log;
	ret->announcement = announcement;
	ret->process.data = ret;
	return uv_spawn(loop, &ret->process, &options);
}

void weir_warm_up_stop(struct weir_warm_up *warm_up) {
	uv_handle_t *handle = (uv_handle_t *)&warm_up->process;

	if (handle->data == NULL || uv_is_closing(handle)) {
		return;
	}
	if (uv_is_active(handle)) {
		uv_process_kill(&warm_up->process, SIGTERM);
	}
	uv_close(handle, NULL);
}
