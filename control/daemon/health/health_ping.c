// SPDX-License-Identifier: BSD-3-Clause
#include "health_ping.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SLOTS 4096u // at least the number of checks that can be in flight
#define TOKEN_BYTES 16 // random bytes of a request
#define HEADER_BYTES 8
#define MESSAGE_BYTES (HEADER_BYTES + TOKEN_BYTES)
#define RECEIVE_MOST 256 // maximum number of messages read in one iteration of the loop

struct weir_health_ping {
	uv_timer_t timer;
	struct weir_health_pings *pings; // NULL = the probe does not wait for a reply
	struct weir_probe_params params;
	struct weir_probe_deadline deadline;
	uint16_t slot;
	uint8_t token[TOKEN_BYTES];
};

struct family {
	uv_poll_t poll; // open only if the socket is open
	struct weir_ping_socket socket;
	struct weir_health_pings *pings;
};

struct weir_health_pings {
	struct family ipv4, ipv6;
	unsigned int open_handles;
	uint16_t next; // slot to try first
	struct weir_health_ping *waiting[SLOTS]; // the slot is the sequence number
};

static void on_timer_closed(uv_handle_t *handle) {
	free(handle->data);
}

static void end(struct weir_health_ping *ping) {
	if (ping->pings != NULL) {
		ping->pings->waiting[ping->slot] = NULL;
	}
	uv_close((uv_handle_t *)&ping->timer, on_timer_closed);
}

static void finish(
	struct weir_health_ping *ping, enum weir_probe_outcome outcome, const char *detail) {
	weir_probe_fn done = ping->params.done;
	void *context = ping->params.context;

	end(ping);
	done(context, outcome, detail, NULL);
}

// --- replies ------------------------------------------------------------------------------

static bool is_from(const struct weir_health_ping *ping, const struct sockaddr_in6 *from) {
	const struct weir_address *address = &ping->params.address;
	const struct sockaddr_in *in = (const struct sockaddr_in *)from;

	return address->family == 4
		       ? memcmp(&in->sin_addr, address->bytes, sizeof(in->sin_addr)) == 0
		       : memcmp(&from->sin6_addr, address->bytes, sizeof(from->sin6_addr)) == 0;
}

// Handles one message. Messages that are not replies to probes are ignored.
static void take(struct family *family, const uint8_t *message, size_t bytes,
	const struct sockaddr_in6 *from) {
	const bool ipv4 = family == &family->pings->ipv4;
	const uint8_t type = ipv4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY;
	struct weir_health_ping *ping;
	uint16_t slot;

	if (ipv4 && family->socket.raw) {
		const size_t header = bytes > 0 ? (size_t)(message[0] & 0x0f) * 4 : 0;

		if (header > bytes) {
			return;
		}
		message += header;
		bytes -= header;
	}
	if (bytes < MESSAGE_BYTES || message[0] != type || message[1] != 0) {
		return;
	}
	slot = (uint16_t)(message[6] << 8 | message[7]);
	ping = slot < SLOTS ? family->pings->waiting[slot] : NULL;
	if (ping != NULL && ping->params.address.family == (ipv4 ? 4 : 6) && is_from(ping, from) &&
		memcmp(message + HEADER_BYTES, ping->token, TOKEN_BYTES) == 0) {
		finish(ping, WEIR_PROBE_PASSED, "echo reply");
	}
}

static void on_readable(uv_poll_t *poll, int status, int events) {
	struct family *family = poll->data;

	(void)events;
	for (int i = 0; i < RECEIVE_MOST; i++) {
		uint8_t message[256];
		struct sockaddr_in6 from = {0};
		socklen_t length = sizeof(from);
		ssize_t got = recvfrom(family->socket.fd, message, sizeof(message), MSG_DONTWAIT,
			(struct sockaddr *)&from, &length);

		if (got < 0 && errno == EAGAIN) {
			break;
		}
		if (got > 0) {
			take(family, message, (size_t)got, &from);
		}
	}
	if (status < 0 && !uv_is_closing((uv_handle_t *)poll)) { // libuv has stopped the handle
		uv_poll_start(poll, UV_READABLE, on_readable);
	}
}

// --- requests -----------------------------------------------------------------------------

static uint16_t checksum(const uint8_t *message, size_t bytes) {
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < bytes; i += 2) {
		sum += (uint32_t)(message[i] << 8 | message[i + 1]);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~(sum + (sum >> 16));
}

// Sends the request. For a raw socket of IPv4, this function computes the checksum; otherwise the
// kernel sets the checksum. The kernel also sets the ID of a ping socket. Returns 0 or negative
// errno.
static int send_request(const struct family *family, const struct weir_health_ping *ping) {
	const struct weir_address *address = &ping->params.address;
	const bool ipv4 = address->family == 4;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_in in = {.sin_family = AF_INET};
	uint8_t message[MESSAGE_BYTES] = {ipv4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST};
	uint16_t sum;

	memcpy(&in.sin_addr, address->bytes, sizeof(in.sin_addr));
	memcpy(&in6.sin6_addr, address->bytes, sizeof(in6.sin6_addr));
	message[6] = (uint8_t)(ping->slot >> 8);
	message[7] = (uint8_t)ping->slot;
	memcpy(message + HEADER_BYTES, ping->token, TOKEN_BYTES);
	sum = ipv4 ? checksum(message, sizeof(message)) : 0;
	message[2] = (uint8_t)(sum >> 8);
	message[3] = (uint8_t)sum;
	return sendto(family->socket.fd, message, sizeof(message), MSG_DONTWAIT,
		       ipv4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6,
		       ipv4 ? sizeof(in) : sizeof(in6)) < 0
		       ? -errno
		       : 0;
}

static void on_timeout(uv_timer_t *timer) {
	struct weir_health_ping *ping = timer->data;
	uint64_t more_ms =
		weir_probe_deadline_extend(&ping->deadline, timer->loop, ping->params.check);
	char detail[64];

	if (more_ms > 0) {
		uv_timer_start(timer, on_timeout, more_ms, 0);
		return;
	}
	snprintf(detail, sizeof(detail), "no echo reply for %u ms", ping->params.check->timeout_ms);
	finish(ping, WEIR_PROBE_FAILED, detail);
}

static void on_missing(uv_timer_t *timer) {
	finish(timer->data, WEIR_PROBE_UNKNOWN,
		"no result: no socket for ICMP echo: see net.ipv4.ping_group_range");
}

// Finds a free slot. Returns false if there is none.
static bool find_slot(struct weir_health_pings *pings, uint16_t *ret) {
	for (unsigned int i = 0; i < SLOTS; i++) {
		const uint16_t slot = (uint16_t)((pings->next + i) % SLOTS);

		if (pings->waiting[slot] == NULL) {
			pings->next = (uint16_t)((slot + 1) % SLOTS);
			*ret = slot;
			return true;
		}
	}
	return false;
}

int weir_health_ping_start(uv_loop_t *loop, struct weir_health_pings *pings,
	const struct weir_probe_params *params, struct weir_health_ping **ret) {
	const struct family *family = pings == NULL                 ? NULL
				      : params->address.family == 4 ? &pings->ipv4
								    : &pings->ipv6;
	const bool has_socket = family != NULL && family->socket.fd >= 0;
	struct weir_health_ping *ping = calloc(1, sizeof(*ping));
	int r = ping == NULL ? -ENOMEM : 0;

	if (r == 0 && has_socket) {
		r = uv_random(NULL, NULL, ping->token, sizeof(ping->token), 0, NULL);
	}
	if (r == 0 && has_socket && !find_slot(pings, &ping->slot)) {
		r = -ENOBUFS;
	}
	if (r == 0) {
		ping->params = *params;
		r = has_socket ? send_request(family, ping) : 0;
	}
	if (r < 0) {
		free(ping);
		return r;
	}
	uv_timer_init(loop, &ping->timer);
	ping->timer.data = ping;
	if (has_socket) {
		ping->pings = pings;
		pings->waiting[ping->slot] = ping;
		uv_timer_start(&ping->timer, on_timeout,
			weir_probe_deadline_init(&ping->deadline, loop, params->check), 0);
	} else {
		uv_timer_start(&ping->timer, on_missing, 0, 0);
	}
	*ret = ping;
	return 0;
}

void weir_health_ping_cancel(struct weir_health_ping *ping) {
	end(ping);
}

// --- create and free ----------------------------------------------------------------------

static int open_poll(uv_loop_t *loop, struct weir_health_pings *pings, struct family *family,
	const struct weir_ping_socket *socket) {
	int r = socket->fd >= 0 ? uv_poll_init(loop, &family->poll, socket->fd) : 0;

	family->socket = (struct weir_ping_socket){.fd = -1};
	family->pings = pings;
	if (r == 0 && socket->fd >= 0) {
		family->socket = *socket;
		family->poll.data = family;
		pings->open_handles++;
		uv_poll_start(&family->poll, UV_READABLE, on_readable);
	}
	return r;
}

static void on_poll_closed(uv_handle_t *handle) {
	struct weir_health_pings *pings = ((struct family *)handle->data)->pings;

	if (--pings->open_handles == 0) {
		free(pings);
	}
}

static void close_poll(struct family *family) {
	if (family->socket.fd >= 0) {
		uv_close((uv_handle_t *)&family->poll, on_poll_closed);
	}
}

int weir_health_pings_create(
	uv_loop_t *loop, struct weir_ping_sockets *sockets, struct weir_health_pings **ret) {
	struct weir_health_pings *pings = calloc(1, sizeof(*pings));
	int r = pings == NULL ? -ENOMEM : 0;

	if (r == 0) {
		r = open_poll(loop, pings, &pings->ipv4, &sockets->ipv4);
	}
	if (r == 0) {
		r = open_poll(loop, pings, &pings->ipv6, &sockets->ipv6);
	}
	if (r < 0) {
		if (pings != NULL && pings->open_handles > 0) {
			close_poll(&pings->ipv4); // frees pings; the caller keeps the socket
		} else {
			free(pings);
		}
		return r;
	}
	*sockets = WEIR_PING_SOCKETS_NONE;
	*ret = pings;
	return 0;
}

void weir_health_pings_free(struct weir_health_pings *pings) {
	struct weir_ping_sockets sockets;

	if (pings == NULL) {
		return;
	}
	sockets = (struct weir_ping_sockets){pings->ipv4.socket, pings->ipv6.socket};
	if (pings->open_handles == 0) {
		free(pings);
	} else {
		close_poll(&pings->ipv4);
		close_poll(&pings->ipv6);
	}
	weir_ping_sockets_close(&sockets); // the handles do not poll any more
}
