// SPDX-License-Identifier: BSD-3-Clause
#include "programs_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs_message.h"
#include "trusted_file.h"

// Maximum number of programs that have not ended. Includes cancelled programs that cannot be
// killed, for example because they wait for a file system that does not respond.
#define RUNS_MAX (2 * WEIR_PROGRAMS_MAX)

static const char default_path[] =
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct helper;

struct run {
	struct helper *helper;
	struct run *next; // in the list of the helper
	unsigned int handles; // number of handles that are not closed
	bool has_process; // the handle of the process exists
	bool timed_out;
	bool kill_rest;
	bool cancelled; // no answer is sent
	size_t filled; // bytes of output in answer.result.output
	struct weir_program_answer answer;
	uv_process_t process;
	uv_pipe_t output;
	uv_timer_t timer;
};

struct helper {
	uv_loop_t loop;
	uv_poll_t poll;
	int fd;
	struct run *runs;
	unsigned int run_count;
	struct weir_program_request request;
};

// --- the end of a program --------------------------------------------------------------------

static void send_answer(const struct helper *helper, const struct weir_program_answer *answer) {
	// At most WEIR_PROGRAMS_MAX requests wait for answers; answers are also sent for requests
	// that were cancelled meanwhile. The buffer has room for these answers.
	while (send(helper->fd, answer, sizeof(*answer), MSG_NOSIGNAL) < 0 && errno == EINTR) {
	}
}

static void cut_output(struct weir_program_result *result) {
	result->output[strcspn(result->output, "\r\n")] = '\0';
}

static void on_closed(uv_handle_t *handle) {
	struct run *run = handle->data, **link = &run->helper->runs;

	if (--run->handles > 0) {
		return;
	}
	while (*link != run) {
		link = &(*link)->next;
	}
	*link = run->next;
	run->helper->run_count--;
	cut_output(&run->answer.result);
	if (!run->cancelled) {
		send_answer(run->helper, &run->answer);
	}
	free(run);
}

static void close_run(struct run *run) {
	if (run->has_process) {
		uv_close((uv_handle_t *)&run->process, on_closed);
	}
	uv_close((uv_handle_t *)&run->output, on_closed);
	uv_close((uv_handle_t *)&run->timer, on_closed);
}

// Keeps output while there is room, and discards the rest.
static void keep_output(struct run *run, const char *data, size_t bytes) {
	struct weir_program_result *result = &run->answer.result;
	size_t room = sizeof(result->output) - 1 - run->filled;

	bytes = bytes < room ? bytes : room;
	memcpy(result->output + run->filled, data, bytes);
	run->filled += bytes;
	result->output[run->filled] = '\0';
}

// Reads the remaining output of the program. Does not wait for the end of the pipe, because
// children of the program may still hold the pipe open.
static void read_rest(struct run *run) {
	char data[WEIR_PROGRAM_OUTPUT_BYTES];
	uv_os_fd_t fd;
	ssize_t n;

	if (uv_fileno((uv_handle_t *)&run->output, &fd) < 0) {
		return;
	}
	while (run->filled < WEIR_PROGRAM_OUTPUT_BYTES - 1 &&
		(n = read(fd, data, sizeof(data))) > 0) { // does not block
		keep_output(run, data, (size_t)n);
	}
}

static void on_exit_of_program(uv_process_t *process, int64_t status, int signal_number) {
	struct run *run = process->data;
	struct weir_program_result *result = &run->answer.result;

	if (run->timed_out) {
		result->end = WEIR_PROGRAM_TIMED_OUT;
	} else if (signal_number != 0) {
		result->end = WEIR_PROGRAM_SIGNALED;
		result->status = signal_number;
	} else {
		result->end = WEIR_PROGRAM_EXITED;
		result->status = (int)status;
	}
	if (run->kill_rest) {
		// The kernel does not reuse the group id while the group has a process.
		kill(-process->pid, SIGKILL);
	}
	read_rest(run);
	close_run(run);
}

static void on_timeout(uv_timer_t *timer) {
	struct run *run = timer->data;

	run->timed_out = true;
	kill(-run->process.pid, SIGKILL);
}

// --- the start of a program ------------------------------------------------------------------

static void provide(uv_handle_t *handle, size_t suggested, uv_buf_t *ret) {
	static char buffer[4096];

	(void)handle;
	(void)suggested;
	*ret = uv_buf_init(buffer, sizeof(buffer));
}

static void on_output(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
	if (n > 0) {
		keep_output(stream->data, buffer->base, (size_t)n);
	} else if (n < 0) {
		uv_read_stop(stream);
	}
}

// Refuses a file that other users can change: they could run any command as the user of this
// process.
static int check_file(const char *path, char *why, size_t why_bytes) {
	struct stat file;

	if (stat(path, &file) < 0) {
		snprintf(why, why_bytes, "%s", strerror(errno));
		return -errno;
	}
	if (!S_ISREG(file.st_mode)) {
		snprintf(why, why_bytes, "not a regular file");
		return -EACCES;
	}
	if (!weir_file_is_trusted(&file)) {
		snprintf(why, why_bytes,
			"users other than root can change the file: chown root:root FILE; chmod "
			"go-w FILE");
		return -EPERM;
	}
	return 0;
}

// output: descriptor to which the program writes.
static int spawn(struct run *run, const struct weir_program_words *words, int output) {
	char *environment[WEIR_PROGRAM_WORDS_MAX + 2] = {(char *)(uintptr_t)default_path};
	uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE},
		{.flags = UV_INHERIT_FD, .data.fd = output},
		{.flags = UV_INHERIT_FD, .data.fd = output}};
	const uv_process_options_t options = {.exit_cb = on_exit_of_program,
		.file = words->arguments[0],
		.args = (char **)(uintptr_t)words->arguments,
		.env = environment,
		.cwd = "/",
		.flags = UV_PROCESS_DETACHED, // a process group of its own, for on_timeout
		.stdio_count = 3,
		.stdio = stdio};
	unsigned int n = 1;

	for (char *const *variable = words->variables; *variable != NULL; variable++) {
		environment[n++] = *variable;
	}
	run->has_process = true; // even if uv_spawn fails
	run->handles++;
	return uv_spawn(&run->helper->loop, &run->process, &options);
}

static int spawn_with_pipe(struct run *run, const struct weir_program_words *words) {
	uv_file pipe[2];
	int r = uv_pipe(pipe, UV_NONBLOCK_PIPE, 0);

	if (r < 0) {
		return r;
	}
	r = uv_pipe_open(&run->output, pipe[0]);
	if (r < 0) {
		close(pipe[0]);
	} else {
		r = spawn(run, words, pipe[1]);
	}
	close(pipe[1]);
	return r;
}

// Creates a run in the list of the helper. Returns NULL with the reason in *ret on failure.
static struct run *create_run(
	struct helper *helper, const char *file, struct weir_program_result *ret) {
	struct run *run = NULL;
	int r = check_file(file, ret->output, sizeof(ret->output));

	if (r == 0 && helper->run_count >= RUNS_MAX) {
		snprintf(ret->output, sizeof(ret->output), "%u programs have not ended", RUNS_MAX);
		r = -EAGAIN;
	} else if (r == 0) {
		run = calloc(1, sizeof(*run));
		r = run == NULL ? -ENOMEM : 0;
	}
	ret->status = r;
	if (run == NULL) {
		return NULL;
	}
	run->helper = helper;
	run->handles = 2;
	run->next = helper->runs;
	helper->runs = run;
	helper->run_count++;
	run->process.data = run->output.data = run->timer.data = run;
	uv_timer_init(&helper->loop, &run->timer);
	uv_pipe_init(&helper->loop, &run->output, 0);
	return run;
}

static void start(struct helper *helper, const struct weir_program_words *words) {
	const struct weir_program_request *request = &helper->request;
	struct weir_program_answer refused = {
		.id = request->id, .result.end = WEIR_PROGRAM_NOT_STARTED};
	struct run *run = create_run(helper, words->arguments[0], &refused.result);
	int r;

	if (run == NULL) {
		send_answer(helper, &refused);
		return;
	}
	run->answer.id = request->id;
	run->kill_rest = request->kill_rest;
	r = spawn_with_pipe(run, words);
	if (r < 0) {
		run->answer.result.end = WEIR_PROGRAM_NOT_STARTED;
		run->answer.result.status = r;
		snprintf(run->answer.result.output, sizeof(run->answer.result.output), "%s",
			strerror(-r));
		close_run(run);
		return;
	}
	uv_read_start((uv_stream_t *)&run->output, provide, on_output);
	uv_update_time(&helper->loop); // programs that were started just before have taken time
	uv_timer_start(&run->timer, on_timeout, request->timeout_ms, 0);
}

static void cancel(const struct helper *helper, uint64_t id) {
	for (struct run *run = helper->runs; run != NULL; run = run->next) {
		if (run->answer.id == id && !uv_is_closing((uv_handle_t *)&run->timer)) {
			run->cancelled = true;
			kill(-run->process.pid, SIGKILL);
		}
	}
}

// --- the connection --------------------------------------------------------------------------

static void on_request(uv_poll_t *poll, int status, int events) {
	struct helper *helper = poll->data;
	struct weir_program_words words;
	ssize_t n;

	(void)events;
	while ((n = recv(helper->fd, &helper->request, sizeof(helper->request), MSG_DONTWAIT)) >
		0) {
		if (weir_program_unpack(&helper->request, (size_t)n, &words) < 0) {
			continue; // not a valid request
		}
		if (helper->request.arguments == 0) {
			cancel(helper, helper->request.id);
		} else {
			start(helper, &words);
		}
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || status < 0) {
		uv_close((uv_handle_t *)poll, NULL); // the loop ends after the last program
	}
}

void weir_programs_serve(int fd, const void *context) {
	const struct weir_run_as *run_as = context;
	struct helper helper = {.fd = fd};

	if (weir_privileges_drop(run_as) < 0 || uv_loop_init(&helper.loop) < 0) {
		return;
	}
	helper.poll.data = &helper;
	if (uv_poll_init(&helper.loop, &helper.poll, fd) == 0 &&
		uv_poll_start(&helper.poll, UV_READABLE | UV_DISCONNECT, on_request) == 0) {
		uv_run(&helper.loop, UV_RUN_DEFAULT);
	}
}
