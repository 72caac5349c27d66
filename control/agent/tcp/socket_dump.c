// SPDX-License-Identifier: BSD-3-Clause
#include "socket_dump.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>

#define FILTER_PORTS_MAX 64

// A block of the kernel's socket filter for one port. A block accepts a socket by jumping to the
// end of the filter. The last block rejects other sockets by jumping beyond the end. Ports are
// compared with the operations >= and <=, which all kernels support.
struct filter_port {
	struct inet_diag_bc_op least, least_port, most, most_port, accept;
};
_Static_assert(sizeof(struct filter_port) == 20, "the struct has no padding");

static size_t write_filter(const struct weir_socket_query *query, struct filter_port *to) {
	uint32_t count = query->port_count;

	for (uint32_t i = 0; i < count; i++) {
		const uint16_t last = i + 1 == count ? sizeof(struct inet_diag_bc_op) : 0;

		to[i] = (struct filter_port){
			.least = {INET_DIAG_BC_S_GE, 8, (uint16_t)(20 + last)},
			.least_port = {.no = query->ports[i]},
			.most = {INET_DIAG_BC_S_LE, 8, (uint16_t)(12 + last)},
			.most_port = {.no = query->ports[i]},
			.accept = {INET_DIAG_BC_JMP, 4,
				(uint16_t)(4 + (count - 1 - i) * sizeof(*to))},
		};
	}
	return count * sizeof(*to);
}

int weir_socket_dump_request(int fd, const struct weir_socket_query *query, uint32_t sequence) {
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
		struct nlattr attribute;
		struct filter_port filter[FILTER_PORTS_MAX];
	} message = {
		.header = {.nlmsg_len = offsetof(typeof(message), attribute),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			.nlmsg_seq = sequence},
		.request = {.sdiag_family = query->family,
			.sdiag_protocol = query->protocol,
			.idiag_ext =
				query->attribute > 0 ? (uint8_t)(1u << (query->attribute - 1)) : 0,
			.idiag_states = query->states},
	};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (query->port_count > 0 && query->port_count <= FILTER_PORTS_MAX) {
		message.attribute.nla_type = INET_DIAG_REQ_BYTECODE;
		message.attribute.nla_len =
			(uint16_t)(sizeof(message.attribute) + write_filter(query, message.filter));
		message.header.nlmsg_len += message.attribute.nla_len;
	}
	return sendto(fd, &message, message.header.nlmsg_len, 0, (const struct sockaddr *)&kernel,
		       sizeof(kernel)) < 0
		       ? -errno
		       : 0;
}

const void *weir_socket_attribute(
	const struct inet_diag_msg *message, size_t bytes, uint16_t type, size_t *ret_bytes) {
	const uint8_t *at = (const uint8_t *)(message + 1);
	size_t left = bytes - sizeof(*message), step;
	struct nlattr head;

	while (left >= sizeof(head)) {
		memcpy(&head, at, sizeof(head));
		if (head.nla_len < sizeof(head) || head.nla_len > left) {
			return NULL;
		}
		if (head.nla_type == type) {
			*ret_bytes = head.nla_len - sizeof(head);
			return at + sizeof(head);
		}
		step = NLA_ALIGN((size_t)head.nla_len);
		if (step >= left) {
			return NULL;
		}
		at += step;
		left -= step;
	}
	return NULL;
}

static void take_socket(const struct weir_socket_query *query, const void *payload, size_t bytes,
	weir_socket_take take, void *context) {
	struct weir_socket socket = {.message = payload};

	if (bytes < sizeof(*socket.message)) {
		return;
	}
	while (socket.port < query->port_count &&
		ntohs(socket.message->id.idiag_sport) != query->ports[socket.port]) {
		socket.port++;
	}
	if (socket.port < query->port_count) {
		if (query->attribute > 0) {
			socket.attribute = weir_socket_attribute(
				payload, bytes, query->attribute, &socket.attribute_bytes);
		}
		take(context, &socket);
	}
}

// Returns the negative errno at the start of a message, or `otherwise` if the message has none.
static int error_of(const void *payload, size_t bytes, int otherwise) {
	int error = 0;

	if (bytes >= sizeof(error)) {
		memcpy(&error, payload, sizeof(error));
	}
	return error < 0 ? error : otherwise;
}

int weir_socket_dump_parse(const struct weir_socket_query *query, const void *data, size_t bytes,
	uint32_t sequence, weir_socket_take take, void *context) {
	const uint8_t *at = data;

	while (bytes >= NLMSG_HDRLEN) {
		const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)at;
		const uint8_t *payload = at + NLMSG_HDRLEN;
		size_t length = header->nlmsg_len;

		if (length < NLMSG_HDRLEN || length > bytes) {
			return 0;
		}
		if (header->nlmsg_seq != sequence) {
			// message of an abandoned dump
		} else if (header->nlmsg_type == NLMSG_DONE) {
			return error_of(payload, length - NLMSG_HDRLEN, 1);
		} else if (header->nlmsg_type == NLMSG_ERROR) {
			return error_of(payload, length - NLMSG_HDRLEN, -EIO);
		} else if (header->nlmsg_type == SOCK_DIAG_BY_FAMILY) {
			take_socket(query, payload, length - NLMSG_HDRLEN, take, context);
		}
		length = NLMSG_ALIGN(length) < bytes ? NLMSG_ALIGN(length) : bytes;
		at += length;
		bytes -= length;
	}
	return 0;
}
