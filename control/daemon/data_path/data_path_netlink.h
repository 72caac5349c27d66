// SPDX-License-Identifier: BSD-3-Clause
//
// Sends one request at a time to the kernel's rtnetlink, which answers within the system call.
//
// Threads: any, one at a time.
#pragma once

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdint.h>

struct weir_data_path_netlink {
	struct mnl_socket *socket; // NULL = not open
	unsigned int sequence;
	char request[512] __attribute__((aligned(8)));
	char answer[8192] __attribute__((aligned(8)));
};

// Returns 0, or negative errno with no socket open.
int weir_data_path_netlink_open(struct weir_data_path_netlink *kernel);
void weir_data_path_netlink_close(struct weir_data_path_netlink *kernel); // allowed if not open

// Begin a request. flags: in addition to NLM_F_REQUEST and NLM_F_ACK. The request is stored in the
// struct, and is valid until the next request.
struct nlmsghdr *weir_data_path_netlink_begin(
	struct weir_data_path_netlink *kernel, uint16_t type, uint16_t flags);

// Sends a request, and waits for the answer. take: called for each message of the answer; NULL =
// messages are ignored. Returns the kernel's result: 0 or negative errno; -ETIMEDOUT = no message
// of the kernel arrived for a second.
int weir_data_path_netlink_request(struct weir_data_path_netlink *kernel,
	const struct nlmsghdr *request, mnl_cb_t take, void *context);
