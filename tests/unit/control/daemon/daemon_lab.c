// SPDX-License-Identifier: BSD-3-Clause
#include "daemon_lab.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 24
#define READ_TIMEOUT_S 30

uint64_t lab_now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void lab_pause(void) {
	struct timespec few = {.tv_nsec = 3000000};

	nanosleep(&few, NULL);
}

int lab_own_network(void **state) {
	(void)state;
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		print_error("no network namespace: %s\n", strerror(errno));
		return -1;
	}
	return system("ip link set lo up && for i in 1 2 3 4 5 6 7 8 9; do "
		      "ip address add 10.0.0.1$i/32 dev lo || exit 1; done") == 0
		       ? 0
		       : -1;
}

// --- files --------------------------------------------------------------------------------

void lab_init(struct lab *lab) {
	*lab = (struct lab){0};
	snprintf(lab->dir, sizeof(lab->dir), "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	snprintf(lab->run_dir, sizeof(lab->run_dir), "%s/run", lab->dir);
	snprintf(lab->config, sizeof(lab->config), "%s/weir.json", lab->dir);
	snprintf(lab->log, sizeof(lab->log), "%s/log", lab->dir);
	assert_int_equal(chmod(lab->dir, 0755), 0);
}

static void remove_in(const char *path) {
	DIR *dir = opendir(path);
	struct dirent *entry;
	char name[512];

	if (dir == NULL) {
		return;
	}
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
			unlink(name);
		}
	}
	closedir(dir);
	rmdir(path);
}

void lab_fini(struct lab *lab) {
	char control[128];

	if (lab->control > 0) {
		lab_kill(lab);
	}
	snprintf(control, sizeof(control), "%s/control", lab->run_dir);
	remove_in(control);
	remove_in(lab->run_dir);
	remove_in(lab->dir);
}

void lab_write(const char *path, const char *format, ...) {
	FILE *file = fopen(path, "w");
	va_list arguments;

	assert_non_null(file);
	va_start(arguments, format);
	vfprintf(file, format, arguments);
	va_end(arguments);
	assert_int_equal(fclose(file), 0);
}

void lab_write_config_with(const struct lab *lab, const char *port, const char *services) {
	lab_write(lab->config,
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\",\n"
		"  \"gateway_mac\": \"02:00:00:00:00:01\", \"source_ipv4\": \"192.0.2.1\"%s}],\n"
		" \"workers\": {\"cores\": [0, 1]},\n"
		" \"services\": [%s]}\n",
		port, services);
}

void lab_write_config(const struct lab *lab, const char *services) {
	lab_write_config_with(lab, "", services);
}

bool lab_log_has(const struct lab *lab, const char *text) {
	static char content[1 << 20];
	int fd = open(lab->log, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0) {
		return false;
	}
	n = read(fd, content, sizeof(content) - 1);
	close(fd);
	content[n > 0 ? n : 0] = '\0';
	return strstr(content, text) != NULL;
}

// --- the process --------------------------------------------------------------------------

static const char *control_program(void) {
	const char *program = getenv("WEIR_CONTROL");

	if (program == NULL) {
		fail_msg("WEIR_CONTROL must name the weir-control to test");
	}
	return program;
}

void lab_spawn(struct lab *lab, ...) {
	const char *arguments[ARGUMENTS_MAX] = {control_program(), "--config", lab->config,
		"--run-dir", lab->run_dir, "--log-level", "debug"};
	int n = 7;
	va_list more;

	va_start(more, lab);
	while (n < ARGUMENTS_MAX - 1 && (arguments[n] = va_arg(more, const char *)) != NULL) {
		n++;
	}
	va_end(more);
	assert_int_equal(lab->control, 0);
	lab->control = fork();
	assert_true(lab->control >= 0);
	if (lab->control == 0) {
		int fd = open(lab->log, O_WRONLY | O_CREAT | O_APPEND, 0644);

		dup2(fd, STDERR_FILENO);
		dup2(fd, STDOUT_FILENO);
		execv(arguments[0], (char *const *)arguments);
		_exit(127);
	}
}

static bool listens(const struct lab *lab) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool connected;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control/control.sock",
		lab->run_dir);
	connected = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return connected;
}

void lab_start(struct lab *lab) {
	if (geteuid() == 0) {
		lab_spawn(lab, "--user", "root", "--group", "root", NULL);
	} else {
		lab_spawn(lab, NULL);
	}
	LAB_UNTIL(listens(lab));
	// The reply shows that the loop runs, so signals are handled from now on.
	assert_string_equal(lab_code(lab, JSON({"command": "version"})), "ok");
}

int lab_wait_exit(struct lab *lab) {
	uint64_t deadline = lab_now_ms() + LAB_DEADLINE_MS;
	int status;

	while (waitpid(lab->control, &status, WNOHANG) == 0) {
		if (lab_now_ms() > deadline) {
			lab_kill(lab);
			fail_msg("weir-control does not end");
		}
		lab_pause();
	}
	lab->control = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int lab_stop(struct lab *lab) {
	kill(lab->control, SIGTERM);
	return lab_wait_exit(lab);
}

void lab_kill(struct lab *lab) {
	kill(lab->control, SIGKILL);
	waitpid(lab->control, NULL, 0);
	lab->control = 0;
}

// --- the API ------------------------------------------------------------------------------

int lab_connect(const struct lab *lab) {
	struct timeval timeout = {.tv_sec = READ_TIMEOUT_S};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control/control.sock",
		lab->run_dir);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		fail_msg("connect %s: %s", address.sun_path, strerror(errno));
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return fd;
}

void lab_send(int fd, const void *data, size_t bytes) {
	const char *from = data;

	while (bytes > 0) {
		ssize_t n = send(fd, from, bytes, MSG_NOSIGNAL);

		if (n < 0) {
			fail_msg("send: %s", strerror(errno));
		}
		from += n;
		bytes -= (size_t)n;
	}
}

json_t *lab_read_answer(int fd) {
	size_t bytes = 0, room = 1 << 16;
	char *line = malloc(room);
	json_error_t error;
	json_t *answer = NULL;

	for (const char *newline = NULL; newline == NULL;) {
		ssize_t n;

		if (bytes == room) {
			room *= 2;
			line = realloc(line, room);
		}
		// Peek first, because bytes after the newline belong to the next answer.
		n = recv(fd, line + bytes, room - bytes, MSG_PEEK);
		if (n < 0 && errno != ECONNRESET) {
			free(line);
			fail_msg("no answer: %s", strerror(errno));
		}
		if (n <= 0) {
			break;
		}
		newline = memchr(line + bytes, '\n', (size_t)n);
		n = newline != NULL ? newline + 1 - (line + bytes) : n;
		assert_int_equal(recv(fd, line + bytes, (size_t)n, 0), n);
		bytes += (size_t)n;
	}
	if (bytes > 0) {
		answer = json_loadb(line, bytes, 0, &error);
		if (!json_is_object(answer)) {
			fail_msg("not a JSON object: %.*s", (int)bytes, line);
		}
	}
	free(line);
	return answer;
}

static json_t *ask(const struct lab *lab, const char *format, va_list arguments) {
	char request[4096];
	int n = vsnprintf(request, sizeof(request) - 1, format, arguments);
	int fd = lab_connect(lab);
	json_t *answer;

	assert_true(n > 0 && n < (int)sizeof(request) - 1);
	request[n] = '\n';
	lab_send(fd, request, (size_t)n + 1);
	answer = lab_read_answer(fd);
	close(fd);
	assert_non_null(answer);
	return answer;
}

json_t *lab_ask(const struct lab *lab, const char *format, ...) {
	va_list arguments;
	json_t *answer;

	va_start(arguments, format);
	answer = ask(lab, format, arguments);
	va_end(arguments);
	return answer;
}

json_t *lab_result(const struct lab *lab, const char *format, ...) {
	va_list arguments;
	json_t *answer, *result;

	va_start(arguments, format);
	answer = ask(lab, format, arguments);
	va_end(arguments);
	if (!json_is_true(json_object_get(answer, "ok"))) {
		fail_msg("%s: %s", format, json_dumps(answer, 0));
	}
	result = json_incref(json_object_get(answer, "result"));
	json_decref(answer);
	return result;
}

const char *lab_code(const struct lab *lab, const char *format, ...) {
	static char code[64];
	const char *text;
	va_list arguments;
	json_t *answer;

	va_start(arguments, format);
	answer = ask(lab, format, arguments);
	va_end(arguments);
	text = json_string_value(json_object_get(answer, "code"));
	snprintf(code, sizeof(code), "%s", text != NULL ? text : "ok");
	json_decref(answer);
	return code;
}

json_t *lab_backend(
	const struct lab *lab, json_t **holder, const char *service, const char *backend) {
	json_decref(*holder);
	*holder = lab_result(lab, JSON({"command": "backend.show", "service": "%s", "backend": "%s"}),
					  service, backend);
	return json_array_get(*holder, 0);
}

bool lab_attached(const struct lab *lab) {
	json_t *version = lab_result(lab, JSON({"command": "version"}));
	bool attached =
		json_is_true(json_object_get(json_object_get(version, "dataplane"), "attached"));

	json_decref(version);
	return attached;
}

json_int_t lab_retired_bytes(const struct lab *lab) {
	json_t *stats = lab_result(lab, JSON({"command": "stats.show"}));
	json_t *bytes = json_object_get(json_object_get(stats, "segment"), "retired_bytes");
	json_int_t n = json_integer_value(bytes);

	assert_true(json_is_integer(bytes));
	json_decref(stats);
	return n;
}
