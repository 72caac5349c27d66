// SPDX-License-Identifier: BSD-3-Clause
//
// Tests messages of a socket dump: valid, invalid, truncated, or with wrong lengths. Each message
// is in memory of exactly its size, so that ASan detects a read beyond the end.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "socket_dump.h"
#include "test.h"

#define SEQUENCE 7

static const uint16_t ports[] = {80, 443};
static const struct weir_socket_query query = {.family = AF_INET,
	.protocol = IPPROTO_TCP,
	.attribute = INET_DIAG_INFO,
	.ports = ports,
	.port_count = 2};

struct taken {
	uint32_t count, port; // port of the last socket
	size_t bytes; // bytes of the socket's attribute; SIZE_MAX = no attribute
	uint8_t first; // first byte of the attribute
};

static void take(void *context, const struct weir_socket *socket) {
	struct taken *taken = context;

	taken->count++;
	taken->port = socket->port;
	taken->bytes = socket->attribute != NULL ? socket->attribute_bytes : SIZE_MAX;
	taken->first = 0;
	for (size_t i = 0; socket->attribute != NULL && i < socket->attribute_bytes; i++) {
		// read all bytes, so that ASan checks them
		taken->first |= ((const uint8_t *)socket->attribute)[i];
	}
	assert_int_equal(socket->message->idiag_state, 1);
}

struct dump {
	uint8_t bytes[1024];
	size_t count;
};

static void add(struct dump *dump, uint16_t type, uint32_t sequence, const void *payload,
	size_t payload_bytes) {
	struct nlmsghdr header = {.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + payload_bytes),
		.nlmsg_type = type,
		.nlmsg_seq = sequence};

	memcpy(dump->bytes + dump->count, &header, sizeof(header));
	if (payload_bytes > 0) {
		memcpy(dump->bytes + dump->count + NLMSG_HDRLEN, payload, payload_bytes);
	}
	dump->count += NLMSG_ALIGN(header.nlmsg_len);
}

// Add a socket with two attributes: INET_DIAG_SHUTDOWN, and INET_DIAG_INFO with 6 bytes. The query
// requests INET_DIAG_INFO.
static void add_socket(struct dump *dump, uint16_t port, uint32_t sequence) {
	struct {
		struct inet_diag_msg message;
		struct nlattr other;
		uint8_t shutdown[4];
		struct nlattr info;
		uint8_t content[8];
	} socket = {
		.message = {.idiag_state = 1, .id = {.idiag_sport = htons(port)}},
		.other = {sizeof(struct nlattr) + 1, INET_DIAG_SHUTDOWN},
		.info = {sizeof(struct nlattr) + 6, INET_DIAG_INFO},
		.content = {[5] = 9, [6] = 0xff},
	};

	add(dump, SOCK_DIAG_BY_FAMILY, sequence, &socket, sizeof(socket) - 2);
}

static int parse(const struct dump *dump, size_t bytes, struct taken *taken) {
	uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
	int r;

	memcpy(exact, dump->bytes, bytes);
	*taken = (struct taken){0};
	r = weir_socket_dump_parse(&query, exact, bytes, SEQUENCE, take, taken);
	free(exact);
	return r;
}

TEST(dump_sockets_of_its_ports_are_taken_with_their_attribute) {
	struct dump dump = {.count = 0};
	struct taken taken;

	add_socket(&dump, 80, SEQUENCE);
	// port 81 is not requested, but the kernel lists all sockets if the query has many ports
	add_socket(&dump, 81, SEQUENCE);
	// this message belongs to an earlier dump, which was abandoned
	add_socket(&dump, 443, SEQUENCE - 1);
	assert_int_equal(parse(&dump, dump.count, &taken), 0);
	assert_int_equal(taken.count, 1);
	assert_int_equal(taken.port, 0);
	assert_int_equal(taken.bytes, 6);
	assert_int_equal(taken.first, 9);
	add_socket(&dump, 443, SEQUENCE);
	add(&dump, NLMSG_DONE, SEQUENCE, "\0\0\0", 4);
	add_socket(&dump, 80, SEQUENCE); // a message after the end
	assert_int_equal(parse(&dump, dump.count, &taken), 1);
	assert_int_equal(taken.count, 2);
	assert_int_equal(taken.port, 1);
}

TEST(dump_errors_of_the_kernel_are_returned) {
	static const int error = -ENOENT;
	struct dump dump = {.count = 0};
	struct taken taken;

	add(&dump, NLMSG_ERROR, SEQUENCE, &error, sizeof(error));
	assert_int_equal(parse(&dump, dump.count, &taken), -ENOENT);
	dump.count = 0;
	add(&dump, NLMSG_DONE, SEQUENCE, &error, sizeof(error));
	assert_int_equal(parse(&dump, dump.count, &taken), -ENOENT);
	dump.count = 0;
	add(&dump, NLMSG_DONE, SEQUENCE, NULL, 0);
	assert_int_equal(parse(&dump, dump.count, &taken), 1);
	dump.count = 0;
	add(&dump, NLMSG_ERROR, SEQUENCE, NULL, 0); // an error message without its error number
	assert_int_equal(parse(&dump, dump.count, &taken), -EIO);
}

TEST(dump_cut_at_every_byte_is_read_up_to_there) {
	struct dump dump = {.count = 0};
	struct taken taken;

	add_socket(&dump, 80, SEQUENCE);
	add_socket(&dump, 443, SEQUENCE);
	for (size_t bytes = 0; bytes < dump.count; bytes++) {
		// the size of one message, including 2 bytes of padding
		size_t one = dump.count / 2;

		assert_int_equal(parse(&dump, bytes, &taken), 0);
		assert_int_equal(taken.count, bytes >= dump.count - 2 ? 2 : bytes >= one - 2);
	}
}

TEST(dump_with_any_length_of_a_message_is_safe) {
	struct taken taken;

	for (uint32_t length = 0; length < 400; length++) {
		struct dump dump = {.count = 0};

		add_socket(&dump, 80, SEQUENCE);
		add_socket(&dump, 443, SEQUENCE);
		((struct nlmsghdr *)dump.bytes)->nlmsg_len = length;
		assert_in_range(parse(&dump, dump.count, &taken) + 1, 1, 2);
		if (length < NLMSG_HDRLEN || length > dump.count) {
			assert_int_equal(taken.count, 0);
		}
	}
	for (uint32_t bit = 9; bit < 32; bit++) {
		struct dump dump = {.count = 0};

		add_socket(&dump, 80, SEQUENCE);
		((struct nlmsghdr *)dump.bytes)->nlmsg_len = 1u << bit;
		assert_int_equal(parse(&dump, dump.count, &taken), 0);
		assert_int_equal(taken.count, 0);
	}
}

TEST(dump_with_any_length_of_an_attribute_is_safe) {
	const size_t at = NLMSG_HDRLEN + sizeof(struct inet_diag_msg);
	struct taken taken;

	for (uint32_t length = 0; length <= UINT16_MAX; length++) {
		uint16_t value = (uint16_t)length;
		struct dump dump = {.count = 0};

		add_socket(&dump, 80, SEQUENCE);
		memcpy(dump.bytes + at, &value, sizeof(value)); // length of the other attribute
		assert_int_equal(parse(&dump, dump.count, &taken), 0);
		assert_int_equal(taken.count, 1); // the port of the socket is known
		if (length < sizeof(struct nlattr) || length > 18) {
			assert_int_equal(taken.bytes, SIZE_MAX);
		}
		dump.count = 0;
		add_socket(&dump, 80, SEQUENCE);
		// length of the attribute of the query
		memcpy(dump.bytes + at + 8, &value, sizeof(value));
		assert_int_equal(parse(&dump, dump.count, &taken), 0);
		assert_true(taken.bytes == (length >= 4 && length <= 10 ? length - 4 : SIZE_MAX));
	}
}

TEST(dump_without_the_fixed_part_has_no_socket) {
	struct inet_diag_msg message = {.idiag_state = 1, .id = {.idiag_sport = htons(80)}};
	struct taken taken;

	for (size_t bytes = 0; bytes <= sizeof(message); bytes++) {
		struct dump dump = {.count = 0};

		add(&dump, SOCK_DIAG_BY_FAMILY, SEQUENCE, &message, bytes);
		assert_int_equal(parse(&dump, NLMSG_HDRLEN + bytes, &taken), 0);
		assert_int_equal(taken.count, bytes == sizeof(message));
	}
	assert_true(taken.bytes == SIZE_MAX);
}
