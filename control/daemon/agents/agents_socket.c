// SPDX-License-Identifier: BSD-3-Clause
#include "agents_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket_buffers.h"

#define BATCH 64u // maximum number of datagrams per system call
// Maximum number of batches in one call of read_some, so that other handles can run.
#define READS_OF_A_TURN 16u
#define RECEIVE_BUFFER_BYTES (4 << 20)
#define ROOM_BYTES \
	(WEIR_AGENT_MESSAGE_BYTES + \
		8) // longer than a message, to detect datagrams that are too long

struct batch {
	struct mmsghdr header[BATCH];
	struct iovec vector[BATCH];
	struct sockaddr_in6 name[BATCH]; // or sockaddr_in
	uint8_t bytes[BATCH][ROOM_BYTES];
	void *owner[BATCH];
	uint32_t count;
};

struct one_socket {
	uv_poll_t poll;
	struct weir_agents_sockets *sockets;
	int fd; // -1 = not open
	struct batch out;
};

struct weir_agents_sockets {
	uv_loop_t *loop;
	struct weir_agents_socket_events events;
	struct one_socket ipv4, ipv6;
	struct batch in;
	uint32_t open_handles;
};

static struct one_socket *socket_of(struct weir_agents_sockets *sockets, uint8_t family) {
	return family == 6 ? &sockets->ipv6 : &sockets->ipv4;
}

static void batch_init(struct batch *batch) {
	for (uint32_t i = 0; i < BATCH; i++) {
		batch->vector[i].iov_base = batch->bytes[i];
		batch->header[i].msg_hdr = (struct msghdr){
			.msg_name = &batch->name[i], .msg_iov = &batch->vector[i], .msg_iovlen = 1};
	}
}

int weir_agents_sockets_create(uv_loop_t *loop, const struct weir_agents_socket_events *events,
	struct weir_agents_sockets **ret) {
	struct weir_agents_sockets *sockets = calloc(1, sizeof(*sockets));

	if (sockets == NULL) {
		return -ENOMEM;
	}
	sockets->loop = loop;
	sockets->events = *events;
	sockets->ipv4.sockets = sockets;
	sockets->ipv6.sockets = sockets;
	sockets->ipv4.fd = -1;
	sockets->ipv6.fd = -1;
	batch_init(&sockets->ipv4.out);
	batch_init(&sockets->ipv6.out);
	batch_init(&sockets->in);
	*ret = sockets;
	return 0;
}

// --- receive ------------------------------------------------------------------------------

static void deliver(struct weir_agents_sockets *sockets, uint32_t i) {
	const struct mmsghdr *header = &sockets->in.header[i];
	const struct sockaddr_in6 *in6 = &sockets->in.name[i];
	struct weir_address address = {0};
	uint16_t port;

	if (in6->sin6_family == AF_INET6) {
		address.family = 6;
		memcpy(address.bytes, &in6->sin6_addr, 16);
		port = ntohs(in6->sin6_port);
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)in6;

		address.family = 4;
		memcpy(address.bytes, &in->sin_addr, 4);
		port = ntohs(in->sin_port);
	}
	sockets->events.received(
		sockets->events.context, &address, port, sockets->in.bytes[i], header->msg_len);
}

// Reads one batch of datagrams. Returns whether more datagrams may be waiting.
static bool read_batch(struct one_socket *one) {
	struct weir_agents_sockets *sockets = one->sockets;
	int n;

	for (uint32_t i = 0; i < BATCH; i++) {
		sockets->in.vector[i].iov_len = ROOM_BYTES;
		sockets->in.header[i].msg_hdr.msg_namelen = sizeof(sockets->in.name[i]);
	}
	n = recvmmsg(one->fd, sockets->in.header, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
	for (int i = 0; i < n; i++) {
		deliver(sockets, (uint32_t)i);
	}
	return n == (int)BATCH;
}

// Reads at most READS_OF_A_TURN batches. Returns whether more datagrams may be waiting.
static bool read_some(struct one_socket *one) {
	uint32_t reads = 0;

	while (one->fd >= 0 && reads < READS_OF_A_TURN && read_batch(one)) {
		reads++;
	}
	return reads == READS_OF_A_TURN;
}

static void on_readable(uv_poll_t *poll, int status, int events) {
	struct one_socket *one = poll->data;

	(void)status;
	(void)events;
	read_some(one);
	one->sockets->events.received_all(one->sockets->events.context);
}

bool weir_agents_sockets_read(struct weir_agents_sockets *sockets) {
	bool more = read_some(&sockets->ipv4);

	return read_some(&sockets->ipv6) || more;
}

// --- open ---------------------------------------------------------------------------------

static int open_socket(uint8_t family) {
	int kind = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	int fd = socket(family == 6 ? AF_INET6 : AF_INET, kind, 0);
	int on = 1;

	if (fd < 0) {
		return -errno;
	}
	// Make the receive buffer as large as permitted, because it must hold the answers that
	// arrive while the loop is busy.
	weir_socket_receive_buffer(fd, RECEIVE_BUFFER_BYTES);
	weir_socket_send_buffer(fd, WEIR_SEND_BUFFER_BYTES);
	if (family == 6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

int weir_agents_sockets_open(struct weir_agents_sockets *sockets, uint8_t family) {
	struct one_socket *one = socket_of(sockets, family);
	int fd, r;

	if (one->fd >= 0) {
		return 0;
	}
	fd = open_socket(family);
	if (fd < 0) {
		// Without this address family, agents of the other family are still probed.
		return fd == -EAFNOSUPPORT ? 0 : fd;
	}
	r = uv_poll_init(sockets->loop, &one->poll, fd);
	if (r < 0) {
		close(fd);
		return r;
	}
	one->fd = fd;
	one->poll.data = one;
	sockets->open_handles++;
	return uv_poll_start(&one->poll, UV_READABLE, on_readable);
}

// --- send ---------------------------------------------------------------------------------

static void flush(struct one_socket *one) {
	struct weir_agents_socket_events *events = &one->sockets->events;
	uint32_t count = one->out.count, i = 0;

	one->out.count = 0;
	while (i < count) {
		int n;

		errno = EAFNOSUPPORT;
		n = one->fd < 0 ? -1
				: sendmmsg(one->fd, &one->out.header[i], count - i, MSG_DONTWAIT);

		if (n > 0) {
			i += (uint32_t)n;
		} else if (n < 0 && errno != EINTR) {
			// The error applies to the first datagram. The next datagrams can still be
			// sent successfully.
			events->unsent(
				events->context, one->out.owner[i], one->out.bytes[i], -errno);
			i++;
		}
	}
}

uint8_t *weir_agents_sockets_add(struct weir_agents_sockets *sockets,
	const struct weir_address *address, uint16_t port, void *owner) {
	struct one_socket *one = socket_of(sockets, address->family);
	struct batch *out = &one->out;
	uint32_t i;

	if (out->count == BATCH) {
		flush(one);
	}
	i = out->count++;
	out->owner[i] = owner;
	out->vector[i].iov_len = WEIR_AGENT_MESSAGE_BYTES;
	if (address->family == 6) {
		out->name[i] =
			(struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
		memcpy(&out->name[i].sin6_addr, address->bytes, 16);
		out->header[i].msg_hdr.msg_namelen = sizeof(struct sockaddr_in6);
	} else {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

		memcpy(&in.sin_addr, address->bytes, 4);
		memcpy(&out->name[i], &in, sizeof(in));
		out->header[i].msg_hdr.msg_namelen = sizeof(in);
	}
	return out->bytes[i];
}

void weir_agents_sockets_flush(struct weir_agents_sockets *sockets) {
	flush(&sockets->ipv4);
	flush(&sockets->ipv6);
}

// --- free ---------------------------------------------------------------------------------

static void on_closed(uv_handle_t *handle) {
	struct one_socket *one = handle->data;
	struct weir_agents_sockets *sockets = one->sockets;

	close(one->fd);
	if (--sockets->open_handles == 0) {
		free(sockets);
	}
}

static void close_one(struct one_socket *one) {
	if (one->fd >= 0) {
		uv_close((uv_handle_t *)&one->poll, on_closed);
	}
}

void weir_agents_sockets_free(struct weir_agents_sockets *sockets) {
	if (sockets == NULL) {
		return;
	}
	if (sockets->open_handles == 0) {
		free(sockets);
		return;
	}
	close_one(&sockets->ipv4);
	close_one(&sockets->ipv6);
}
