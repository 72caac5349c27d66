// SPDX-License-Identifier: BSD-3-Clause
#include "health_datagram.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "health_connect.h"

// Maximum number of datagrams and errors that are read in one iteration of the loop.
#define RECEIVE_MOST 64

static void closed(uv_handle_t *handle) {
	struct weir_health_datagram *datagram = handle->data;

	if (--datagram->open_handles == 0) {
		free(datagram);
	}
}

static void end(struct weir_health_datagram *datagram) {
	datagram->ended = true;
	uv_close((uv_handle_t *)&datagram->timer, closed);
	uv_close((uv_handle_t *)&datagram->poll, closed); // also stops polling the socket
	close(datagram->fd);
}

static void finish(
	struct weir_health_datagram *datagram, const struct weir_health_datagram_result *result) {
	weir_probe_fn done = datagram->params.done;
	void *context = datagram->params.context;

	end(datagram);
	done(context, result->outcome, result->detail, NULL);
}

static void fail(struct weir_health_datagram *datagram, int error) {
	struct weir_health_datagram_result result = {.outcome = weir_probe_outcome_of(error)};

	strncpy(result.detail, error == -ECONNREFUSED ? "port unreachable" : uv_strerror(error),
		sizeof(result.detail) - 1);
	finish(datagram, &result);
}

static void on_timeout(uv_timer_t *timer) {
	struct weir_health_datagram *datagram = timer->data;
	struct weir_health_datagram_result result = {0};
	uint64_t more_ms = weir_probe_deadline_extend(
		&datagram->deadline, timer->loop, datagram->params.check);

	if (more_ms > 0) {
		uv_timer_start(timer, on_timeout, more_ms, 0);
		return;
	}
	datagram->type->expire(datagram, &result);
	finish(datagram, &result);
}

// Reads datagrams until a datagram decides the outcome. Returns true if the probe has ended. The
// kernel reports an ICMP error before the datagrams that were received earlier, so the received
// datagrams, up to RECEIVE_MOST, are read before the error is handled.
static bool receive(struct weir_health_datagram *datagram) {
	uint8_t data[WEIR_HEALTH_DATAGRAM_BYTES];
	int error = 0;

	for (int i = 0; i < RECEIVE_MOST; i++) {
		struct weir_health_datagram_result result = {0};
		ssize_t got = recv(datagram->fd, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC);

		if (got >= 0) {
			const size_t bytes = (size_t)got;
			const size_t kept = bytes < sizeof(data) ? bytes : sizeof(data);

			result.bytes = bytes;
			if (datagram->type->take(datagram, data, kept, &result)) {
				finish(datagram, &result);
				return true;
			}
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR && error == 0) {
			error = -errno;
		}
	}
	if (error != 0) {
		fail(datagram, error);
	}
	return error != 0;
}

static void on_readable(uv_poll_t *poll, int status, int events) {
	struct weir_health_datagram *datagram = poll->data;

	(void)events;
	if (datagram->ended || receive(datagram)) {
		return;
	}
	if (status < 0) { // libuv has stopped the handle because of an ICMP error
		uv_poll_start(poll, UV_READABLE, on_readable);
	}
}

// Returns a socket that is connected to the backend, or negative errno.
static int open_socket(const struct weir_probe_params *params) {
	const struct weir_address *address = &params->address;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(params->port)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(params->port)};
	const bool ipv4 = address->family == 4;
	const int one = 1;
	int fd = params->flow != NULL ? weir_health_take_socket(params->flow)
				      : socket(ipv4 ? AF_INET : AF_INET6,
						SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0) {
		return -errno;
	}
	memcpy(&in.sin_addr, address->bytes, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, address->bytes, sizeof(in6.sin6_addr));
	// Receive all ICMP errors, including "host unreachable".
	r = ipv4 ? setsockopt(fd, IPPROTO_IP, IP_RECVERR, &one, sizeof(one))
		 : setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &one, sizeof(one));
	if (r == 0) {
		r = ipv4 ? connect(fd, (struct sockaddr *)&in, sizeof(in))
			 : connect(fd, (struct sockaddr *)&in6, sizeof(in6));
	}
	if (r < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int weir_health_datagram_start(struct weir_health_datagram *datagram, uv_loop_t *loop,
	const struct weir_health_datagram_type *type, const struct weir_probe_params *params,
	const void *request, size_t bytes) {
	int fd = open_socket(params), r = 0;

	if (fd < 0) {
		free(datagram);
		return fd;
	}
	if (send(fd, request, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		r = -errno;
	}
	if (r == 0) {
		r = uv_poll_init(loop, &datagram->poll, fd);
	}
	if (r < 0) {
		close(fd);
		free(datagram);
		return r;
	}
	uv_timer_init(loop, &datagram->timer);
	datagram->type = type;
	datagram->params = *params;
	datagram->fd = fd;
	datagram->open_handles = 2;
	datagram->ended = false;
	datagram->poll.data = datagram->timer.data = datagram;
	uv_poll_start(&datagram->poll, UV_READABLE, on_readable);
	uv_timer_start(&datagram->timer, on_timeout,
		weir_probe_deadline_init(&datagram->deadline, loop, params->check), 0);
	return 0;
}

void weir_health_datagram_cancel(struct weir_health_datagram *datagram) {
	end(datagram);
}
