// SPDX-License-Identifier: BSD-3-Clause
#include "server.h"

#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct server {
	enum server_mode mode;
	const struct server_answer *answers;
	char folder[64], socket[96];
	char request[1 << 16];
	int listen_fd, stop_fd;
	unsigned turn;
	pthread_t thread;
	unsigned int closed; // number of closed connections; written by the thread
};

static int readable(const struct server *server, int fd) {
	struct pollfd ready[2] = {
		{.fd = fd, .events = POLLIN}, {.fd = server->stop_fd, .events = POLLIN}};

	return poll(ready, 2, -1) > 0 && !(ready[1].revents & POLLIN);
}

// Returns line n of a text (from 0), or its last line if the text has fewer lines.
static void pick_line(const char *text, unsigned n, const char **ret, size_t *ret_bytes) {
	while (n-- > 0 && strchr(text, '\n') != NULL && strchr(text, '\n')[1]) {
		text = strchr(text, '\n') + 1;
	}
	*ret = text;
	*ret_bytes = strcspn(text, "\n");
}

static enum server_mode mode_of(const struct server *server) {
	return __atomic_load_n(&server->mode, __ATOMIC_ACQUIRE);
}

static void answer(struct server *server, int fd) {
	json_t *request = json_loads(server->request, 0, NULL);
	const char *command = json_string_value(json_object_get(request, "command"));
	const struct server_answer *found = server->answers;
	const char *text = JSON({"ok": false, "code": "bad-request", "error": "?"});
	size_t bytes = strlen(text);

	while (found->command != NULL && strcmp(found->command, "*") != 0 &&
		(command == NULL || strcmp(found->command, command) != 0)) {
		found++;
	}
	if (found->command != NULL && found->text == NULL) {
		json_decref(request);
		return;
	}
	if (found->command != NULL) {
		pick_line(found->text, server->turn++, &text, &bytes);
	}
	for (size_t i = 0; mode_of(server) == SERVER_ANSWER_BYTES && i + 1 < bytes; i++) {
		if (send(fd, text, 1, MSG_NOSIGNAL) != 1) {
			break;
		}
		text++;
		bytes--;
	}
	while (bytes > 0) {
		ssize_t n = send(fd, text, bytes, MSG_NOSIGNAL);

		if (n <= 0) {
			break;
		}
		text += n;
		bytes -= (size_t)n;
	}
	send(fd, "\n", 1, MSG_NOSIGNAL);
	json_decref(request);
}

static void serve(struct server *server, int fd) {
	size_t bytes = 0;

	while (readable(server, fd)) {
		ssize_t n = read(fd, server->request + bytes, sizeof(server->request) - bytes - 1);

		if (n <= 0) {
			return;
		}
		bytes += (size_t)n;
		server->request[bytes] = '\0';
		if (server->request[bytes - 1] != '\n') {
			continue;
		}
		server->request[bytes - 1] = '\0';
		bytes = 0;
		if (mode_of(server) == SERVER_CLOSE) {
			return;
		}
		if (mode_of(server) != SERVER_HANG) {
			answer(server, fd);
		}
	}
}

static void *run(void *argument) {
	struct server *server = argument;

	while (mode_of(server) != SERVER_DEAF && readable(server, server->listen_fd)) {
		int fd = accept(server->listen_fd, NULL, NULL);

		if (fd >= 0) {
			if (mode_of(server) == SERVER_UNREAD) {
				answer(server, fd);
			} else {
				serve(server, fd);
			}
			close(fd);
			__atomic_add_fetch(&server->closed, 1, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

void server_wait_closed(const struct server *server) {
	for (int i = 0; __atomic_load_n(&server->closed, __ATOMIC_ACQUIRE) == 0; i++) {
		assert_true(i < 1000);
		poll(NULL, 0, 10);
	}
}

struct server *server_start(enum server_mode mode, const struct server_answer *answers) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct server *server = calloc(1, sizeof(*server));

	assert_non_null(server);
	server->mode = mode;
	server->answers = answers;
	strcpy(server->folder, "/tmp/weirctl-test-XXXXXX");
	assert_non_null(mkdtemp(server->folder));
	snprintf(server->socket, sizeof(server->socket), "%s/control", server->folder);
	assert_int_equal(mkdir(server->socket, 0700), 0);
	strcat(server->socket, "/control.sock");
	memcpy(address.sun_path, server->socket, strlen(server->socket) + 1);
	server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	server->stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(server->listen_fd >= 0 && server->stop_fd >= 0);
	assert_int_equal(bind(server->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(server->listen_fd, mode == SERVER_DEAF ? 0 : 5), 0);
	assert_int_equal(pthread_create(&server->thread, NULL, run, server), 0);
	return server;
}

void server_set_mode(struct server *server, enum server_mode mode) {
	__atomic_store_n(&server->mode, mode, __ATOMIC_RELEASE);
}

void server_stop(struct server *server) {
	uint64_t one = 1;

	assert_int_equal(write(server->stop_fd, &one, sizeof(one)), sizeof(one));
	pthread_join(server->thread, NULL);
	close(server->listen_fd);
	close(server->stop_fd);
	unlink(server->socket);
	*strrchr(server->socket, '/') = '\0';
	rmdir(server->socket);
	rmdir(server->folder);
	free(server);
}

const char *server_folder(const struct server *server) {
	return server->folder;
}

const char *server_request(const struct server *server) {
	return server->request;
}
