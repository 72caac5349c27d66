// SPDX-License-Identifier: BSD-3-Clause
#include "health_relay.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "health_connect.h"

#define BUFFER_BYTES 4096
// Listen backlog; large, so that other processes cannot fill it before libcurl connects.
#define LISTEN_BACKLOG 4096
#define ACCEPT_MOST 256u // maximum number of accepted connections per iteration of the loop
#define SEND_BUFFER_BYTES 8192 // about the maximum number of bytes that libcurl reads in one call
#define END_MS 1 // interval for checking whether libcurl has read the server's last data

struct direction { // one of the two directions
	uv_stream_t *from, *to;
	// Writes bytes that `to` did not accept immediately. Reading pauses meanwhile.
	uv_write_t write;
	char buffer[BUFFER_BYTES];
};

struct weir_health_relay {
	uv_tcp_t server;
	uv_pipe_t client; // connection of libcurl
	uv_poll_t listener; // accepts the client
	uv_connect_t connect;
	uv_shutdown_t shutdown;
	uv_timer_t end; // delays the end of file after the server's last data
	struct direction in, out;
	weir_health_relay_connected connected;
	weir_health_relay_failed failed;
	void *context;
	uint64_t received;
	unsigned int open_handles;
	int listener_fd; // -1 = closed
	int error; // error of the server's connection after the connection was established
	bool is_connected, is_ended, is_over; // is_ended: the server sends no more data
	bool is_read; // libcurl has read everything that the server sent
};

// --- end ----------------------------------------------------------------------------------

static void closed(uv_handle_t *handle) {
	struct weir_health_relay *relay = handle->data;

	if (--relay->open_handles == 0) {
		free(relay);
	}
}

static void close_client(struct weir_health_relay *relay) {
	if (!uv_is_closing((uv_handle_t *)&relay->client)) {
		uv_close((uv_handle_t *)&relay->client, closed);
	}
}

static void close_listener(struct weir_health_relay *relay) {
	if (relay->listener_fd >= 0) {
		uv_poll_stop(&relay->listener);
		uv_close((uv_handle_t *)&relay->listener, closed);
		close(relay->listener_fd);
		relay->listener_fd = -1;
	}
}

void weir_health_relay_free(struct weir_health_relay *relay) {
	if (relay == NULL) {
		return;
	}
	relay->is_over = true;
	close_listener(relay);
	close_client(relay);
	uv_close((uv_handle_t *)&relay->end, closed);
	if (!relay->is_connected || uv_tcp_close_reset(&relay->server, closed)) {
		uv_close((uv_handle_t *)&relay->server, closed);
	}
}

static void fail(struct weir_health_relay *relay, int error) {
	if (!relay->is_over) {
		relay->is_over = true;
		relay->failed(relay->context, error);
	}
}

// --- both directions ----------------------------------------------------------------------

static void on_read(uv_stream_t *from, ssize_t bytes, const uv_buf_t *buffer);

static struct direction *direction_of(const uv_stream_t *from) {
	struct weir_health_relay *relay = from->data;

	return from == relay->in.from ? &relay->in : &relay->out;
}

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
	struct direction *direction = direction_of((uv_stream_t *)handle);

	(void)suggested;
	*buffer = uv_buf_init(direction->buffer, sizeof(direction->buffer));
}

// Stores the error of a connection that was reset. The kernel reports a reset only once: if a write
// returns the error, a later read returns only end of file.
static void note_reset(const struct direction *direction, int status) {
	struct weir_health_relay *relay = direction->from->data;

	if (direction == &relay->out && status == -ECONNRESET && relay->error == 0) {
		relay->error = status;
	}
}

static void on_written(uv_write_t *write, int status) {
	struct direction *direction = write->data;
	struct weir_health_relay *relay = direction->from->data;

	// If a write to the server fails, the data and all later data from libcurl are dropped.
	note_reset(direction, status);
	if (!relay->is_over && (status == 0 || direction == &relay->out)) {
		uv_read_start(direction->from, allocate, on_read);
	}
}

static void pass_on(struct direction *direction, size_t bytes) {
	uv_buf_t buffer = uv_buf_init(direction->buffer, (unsigned int)bytes);
	int done = uv_try_write(direction->to, &buffer, 1);

	if (done == (int)bytes) {
		return;
	}
	note_reset(direction, done);
	uv_read_stop(direction->from);
	done = done > 0 ? done : 0;
	buffer = uv_buf_init(direction->buffer + done, (unsigned int)bytes - (unsigned int)done);
	direction->write.data = direction;
	if (uv_write(&direction->write, direction->to, &buffer, 1, on_written) < 0) {
		close_client(direction->from->data);
	}
}

static bool has_unread(const struct weir_health_relay *relay) {
	int fd = -1, bytes = 0;

	return uv_fileno((const uv_handle_t *)&relay->client, &fd) == 0 &&
	       ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

static void on_end(uv_timer_t *timer) {
	struct weir_health_relay *relay = timer->data;

	if (!relay->is_read) {
		relay->is_read = !has_unread(relay);
		return;
	}
	uv_timer_stop(timer);
	if (!relay->is_over && uv_shutdown(&relay->shutdown, relay->in.to, NULL) < 0) {
		close_client(relay);
	}
}

// Handles the end of the server's data. If libcurl (7.88) reads end of file directly after the
// HTTP/2 trailers, it loses the trailers, which contain the gRPC status. Therefore the end of file
// is delayed until libcurl has had time to read all data. The socket stays open until then, because
// libcurl reads no more data after a failed write. Further data from libcurl is dropped.
static void end_server(struct weir_health_relay *relay, int error) {
	relay->error = relay->error != 0 ? relay->error : error;
	relay->is_ended = true;
	uv_timer_start(&relay->end, on_end, END_MS, END_MS);
}

// Passes data on. When the server closes or resets the connection, libcurl gets all data sent
// before, and then the end of file.
static void on_read(uv_stream_t *from, ssize_t bytes, const uv_buf_t *buffer) {
	struct weir_health_relay *relay = from->data;
	struct direction *direction = direction_of(from);

	(void)buffer;
	if (relay->is_over || bytes == 0) {
		return;
	}
	if (bytes < 0) {
		uv_read_stop(from);
		if (direction == &relay->in) {
			end_server(relay, weir_health_read_error(&relay->server, bytes));
		}
		return;
	}
	if (direction == &relay->in) {
		relay->received += (size_t)bytes;
		if (relay->received > WEIR_HEALTH_RECEIVED_MOST) {
			fail(relay, -EMSGSIZE);
			return;
		}
	}
	if (direction == &relay->in || !relay->is_ended) {
		pass_on(direction, (size_t)bytes);
	}
}

// --- start --------------------------------------------------------------------------------

static bool is_own(int fd) {
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == getpid();
}

// Uses `fd`, the connection accepted from libcurl.
static int join(struct weir_health_relay *relay, int fd) {
	int bytes = SEND_BUFFER_BYTES, r;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	r = uv_pipe_open(&relay->client, fd);
	if (r) {
		close(fd);
		return r;
	}
	close_listener(relay);
	r = uv_read_start(relay->in.from, allocate, on_read);
	return r ? r : uv_read_start(relay->out.from, allocate, on_read);
}

static void on_listener(uv_poll_t *poll, int status, int events) {
	struct weir_health_relay *relay = poll->data;
	unsigned int left = ACCEPT_MOST;
	bool of_others;
	int fd, r = 0;

	(void)events;
	do {
		fd = accept4(relay->listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		of_others = fd >= 0 && !is_own(fd);
		if (of_others) {
			close(fd);
		}
	} while (of_others && --left > 0);
	if (of_others) {
		return;
	}
	if (fd >= 0) {
		r = join(relay, fd);
	} else if (status < 0 || errno != EAGAIN) {
		r = status < 0 ? status : -errno;
	}
	if (r) {
		fail(relay, r);
	}
}

// Listens on an unused abstract socket name (its first byte is 0).
static int listen_for_client(struct weir_health_relay *relay, char *name, size_t bytes) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), r;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t length = sizeof(address);

	if (fd < 0) {
		return -errno;
	}
	if (bind(fd, (struct sockaddr *)&address, sizeof(address.sun_family)) < 0 ||
		listen(fd, LISTEN_BACKLOG) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
		r = -errno;
	} else {
		r = uv_poll_init(relay->server.loop, &relay->listener, fd);
	}
	if (r) {
		close(fd);
		return r;
	}
	length -= (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1;
	snprintf(name, bytes, "%.*s", (int)length, address.sun_path + 1);
	relay->listener.data = relay;
	relay->listener_fd = fd;
	relay->open_handles++;
	return uv_poll_start(&relay->listener, UV_READABLE, on_listener);
}

static void on_connect(uv_connect_t *connect, int status) {
	struct weir_health_relay *relay = connect->data;
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)];

	if (relay->is_over) {
		return; // closing the socket cancelled the request
	}
	relay->is_connected = weir_health_was_connected(status);
	if (relay->is_connected) {
		relay->error = status;
		status = listen_for_client(relay, name, sizeof(name));
	}
	if (status < 0) {
		fail(relay, status);
	} else {
		relay->connected(relay->context, name);
	}
}

int weir_health_relay_start(uv_loop_t *loop, const struct weir_probe_params *params,
	weir_health_relay_connected connected, weir_health_relay_failed failed, void *context,
	struct weir_health_relay **ret) {
	struct weir_health_relay *relay = calloc(1, sizeof(*relay));
	int r;

	if (relay == NULL) {
		return -ENOMEM;
	}
	r = uv_tcp_init(loop, &relay->server);
	if (r) {
		free(relay);
		return r;
	}
	uv_pipe_init(loop, &relay->client, 0);
	uv_timer_init(loop, &relay->end);
	relay->open_handles = 3;
	relay->server.data = relay->client.data = relay->connect.data = relay->end.data = relay;
	relay->in.from = relay->out.to = (uv_stream_t *)&relay->server;
	relay->in.to = relay->out.from = (uv_stream_t *)&relay->client;
	relay->connected = connected;
	relay->failed = failed;
	relay->context = context;
	relay->listener_fd = -1;
	r = weir_health_connect(&relay->connect, &relay->server, params, on_connect);
	if (r) {
		weir_health_relay_free(relay);
		return r;
	}
	*ret = relay;
	return 0;
}

bool weir_health_relay_is_joined(const struct weir_health_relay *relay) {
	return relay->is_connected && relay->listener_fd < 0;
}

int weir_health_relay_error(const struct weir_health_relay *relay) {
	return relay->error;
}
