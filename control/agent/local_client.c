// SPDX-License-Identifier: BSD-3-Clause
#include "local_client.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local_socket.h"
#include "plural.h"
#include "processes.h"
#include "status.h"

#define ANSWER_BYTES 65536
#define PATIENCE_S 5
#define POLL_MS 100

//--- requests -----------------------------------------------------------------------------

static int connect_agent(const struct weir_agent_options *options) {
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0) {
		return -errno;
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/%s", options->run_dir,
		WEIR_LOCAL_SOCKET);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	// The timeout also limits connect(), which waits while the agent does not accept
	// connections.
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static int exchange(int fd, const char *request, char *answer, size_t room) {
	size_t bytes = 0;

	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0) {
		return -errno;
	}
	for (;;) {
		ssize_t n = read(fd, answer + bytes, room - 1 - bytes);

		if (n < 0) {
			return -errno;
		}
		bytes += (size_t)n;
		if (n == 0 || bytes == room - 1) {
			answer[bytes] = '\0';
			return bytes > 0 ? 0 : -EPROTO;
		}
	}
}

static enum weir_agent_exit unreachable(const struct weir_agent_options *options, int error) {
	const char *why = error == -EAGAIN ? "the process hangs or is stopped" : strerror(-error);
	const bool absent = error == -ENOENT || error == -ECONNREFUSED;
	struct weir_processes found;
	char text[320] = "";

	if (absent) {
		found = weir_processes_find("", WEIR_PROGRAM_AGENT, options->run_dir);
		weir_processes_explain(
			&found, WEIR_PROGRAM_AGENT, options->run_dir, text, sizeof(text));
	}
	if (text[0] != '\0') {
		fprintf(stderr, "weir-agent: no response from weir-agent run: %s\n", text);
		return WEIR_AGENT_ABSENT;
	}
	fprintf(stderr, "weir-agent: no response from weir-agent run in %s: %s%s\n",
		options->run_dir, why,
		error == -EACCES ? "; run as root"
		: absent         ? "; start weir-agent run, or use its --run-dir"
				 : "");
	return WEIR_AGENT_ABSENT;
}

// Send a request, `{"command": ...}`. Returns WEIR_AGENT_DONE and the answer, owned by the caller,
// or another status after an error was printed.
static enum weir_agent_exit send_command(
	const struct weir_agent_options *options, const char *request, json_t **ret) {
	static const char broken[] = "weir-agent: the response of weir-agent run is not JSON\n";
	char *answer = malloc(ANSWER_BYTES);
	int fd = connect_agent(options), r = fd;
	const char *error;
	json_t *reply;

	if (answer == NULL) {
		r = -ENOMEM;
	} else if (fd >= 0) {
		r = exchange(fd, request, answer, ANSWER_BYTES);
	}
	if (fd >= 0) {
		close(fd);
	}
	if (r < 0) {
		free(answer);
		return unreachable(options, r);
	}
	reply = json_loads(answer, 0, NULL);
	free(answer);
	error = reply == NULL ? NULL : json_string_value(json_object_get(reply, "error"));
	if (reply == NULL || error != NULL) {
		fprintf(stderr, error != NULL ? "weir-agent: %s\n" : broken, error);
		json_decref(reply);
		return WEIR_AGENT_REFUSED;
	}
	*ret = reply;
	return WEIR_AGENT_DONE;
}

// --- commands -----------------------------------------------------------------------------

enum weir_agent_exit weir_local_status(const struct weir_agent_options *options) {
	json_t *status = NULL;
	enum weir_agent_exit r = send_command(options, "{\"command\": \"status\"}\n", &status);

	if (r != WEIR_AGENT_DONE) {
		return r;
	}
	if (options->json) {
		json_dumpf(status, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		weir_status_write(status, stdout);
	}
	json_decref(status);
	return WEIR_AGENT_DONE;
}

json_t *weir_local_status_read(const struct weir_agent_options *options) {
	char *answer = malloc(ANSWER_BYTES);
	int fd = answer != NULL ? connect_agent(options) : -ENOMEM;
	json_t *status = NULL;

	if (fd >= 0) {
		if (exchange(fd, "{\"command\": \"status\"}\n", answer, ANSWER_BYTES) == 0) {
			status = json_loads(answer, 0, NULL);
		}
		close(fd);
	}
	free(answer);
	return status;
}

// Print each service that has announced a state other than READY: the command "ready" applies to
// the host only.
static void print_announced(const json_t *status, const struct weir_agent_options *options) {
	const json_t *service;
	size_t i;

	json_array_foreach (json_object_get(status, "services"), i, service) {
		const char *name = json_string_value(json_object_get(service, "service"));
		const char *word = json_string_value(json_object_get(service, "word"));

		if (name != NULL && word != NULL && strcmp(word, "ready") != 0) {
			fprintf(stderr,
				"weir-agent: service %s stays %s, because this state was "
				"announced; to change this, run \"weir-agent announce ready "
				"--service %s --run-dir "
				"%s\"\n",
				name, word, name, options->run_dir);
		}
	}
}

enum weir_agent_exit weir_local_ready(const struct weir_agent_options *options) {
	json_t *status = NULL;
	enum weir_agent_exit r = send_command(options, "{\"command\": \"ready\"}\n", &status);

	if (r == WEIR_AGENT_DONE) {
		printf("ready: balancers to notify: %zu\n",
			json_array_size(json_object_get(status, "balancers")));
		print_announced(status, options);
		json_decref(status);
	}
	return r;
}

enum progress {
	DRAINING,
	DRAINED, // no connection is left
	EXPIRED, // the interval has expired, and connections are left, or their number is unknown
	CANCELLED, // weir-agent ready has cancelled the drain, or weir-agent run has restarted
};

static bool is_zero(const json_t *count) {
	return json_is_integer(count) && json_integer_value(count) == 0;
}

// Print a line with the progress if the line has changed, and a last line when the drain is over.
// shown: a buffer of `bytes` bytes with the line printed last. Returns the progress of the drain.
static enum progress show_progress(const json_t *status, char *shown, size_t bytes) {
	const json_t *drain = json_object_get(status, "drain");
	const char *state = json_string_value(json_object_get(drain, "state"));
	size_t balancers = json_array_size(json_object_get(status, "balancers"));
	json_int_t pending = json_integer_value(json_object_get(drain, "unheard"));
	char connections[WEIR_DRAIN_COUNT_BYTES], line[160];

	if (state == NULL || strcmp(state, "none") == 0) {
		const char *word = json_string_value(json_object_get(status, "word"));

		puts(word != NULL && strcmp(word, "lame-duck") == 0
				? "lame-duck: a restart of weir-agent run has ended the drain; the "
				  "state is still lame-duck"
				: "lame-duck: weir-agent ready has ended the drain");
		return CANCELLED;
	}
	snprintf(line, sizeof(line), "lame-duck: acknowledged by %zu of %zu balancer%s, %s left\n",
		balancers - ((size_t)pending < balancers ? (size_t)pending : balancers), balancers,
		weir_plural(balancers), weir_status_connections(drain, connections));
	if (strcmp(line, shown) != 0) {
		snprintf(shown, bytes, "%s", line);
		fputs(line, stdout);
	}
	if (strcmp(state, "done") == 0 || strcmp(state, "deadline") == 0) {
		if (strcmp(state, "done") == 0) {
			printf("lame-duck: done\n");
			return DRAINED;
		}
		printf("lame-duck: interval expired, %s left\n", connections);
		return is_zero(json_object_get(drain, "connections")) ? DRAINED : EXPIRED;
	}
	fflush(stdout);
	return DRAINING;
}

static enum weir_agent_exit run_command(const char *command) {
	int status;

	fflush(stdout);
	status = system(command);
	if (status == 0) {
		return WEIR_AGENT_DONE;
	}
	fprintf(stderr, "weir-agent: --then: the command failed (%s %d)\n",
		WIFSIGNALED(status) ? "signal" : "exit",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return WEIR_AGENT_REFUSED;
}

// Warn that new connections may still arrive, because no balancer has acknowledged the state.
// *warned: set to true by the first warning during the drain, so that it is not repeated.
static void warn_of_balancers(const struct weir_agent_options *options, const json_t *status,
	enum progress progress, bool *warned) {
	const json_t *notified = json_object_get(json_object_get(status, "drain"), "notified");
	const size_t balancers = json_array_size(json_object_get(status, "balancers"));

	if (!json_is_false(notified) || progress == CANCELLED) {
		// true or absent: a balancer was notified, or an older agent does not report
		// `notified`
		return;
	}
	if (progress != DRAINING) {
		fprintf(stderr, "weir-agent: warning: %s: new connections may still arrive\n",
			balancers == 0 ? "no balancer probes this agent, so none was notified"
				       : "no balancer has acknowledged the state yet");
	} else if (options->then != NULL && !*warned && balancers == 0) {
		*warned = true;
		fprintf(stderr, "weir-agent: warning: no balancer probes this agent, so none can "
				"be notified: weir-agent lame-duck waits for the whole "
				"--interval\n");
	}
}

enum weir_agent_exit weir_local_lame_duck(const struct weir_agent_options *options) {
	const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
	char request[128], shown[160] = "";
	enum progress progress = DRAINING;
	enum weir_agent_exit r;
	bool warned = false;
	json_t *status = NULL;

	snprintf(request, sizeof(request),
		"{\"command\": \"lame-duck\", \"interval_ms\": %llu, \"patient\": %s}\n",
		(unsigned long long)options->interval_ms, options->then != NULL ? "true" : "false");
	r = send_command(options, request, &status);
	while (r == WEIR_AGENT_DONE) {
		json_decref(status);
		if (progress == CANCELLED) { // the server must stay up after "ready"
			return WEIR_AGENT_REFUSED;
		}
		if (progress != DRAINING) {
			return options->then != NULL ? run_command(options->then)
			       : progress == EXPIRED && options->interval_ms > 0
				       ? WEIR_AGENT_EXPIRED
				       : WEIR_AGENT_DONE;
		}
		nanosleep(&pause, NULL);
		r = send_command(options, "{\"command\": \"status\"}\n", &status);
		if (r == WEIR_AGENT_DONE) {
			progress = show_progress(status, shown, sizeof(shown));
			warn_of_balancers(options, status, progress, &warned);
		}
	}
	return r;
}
