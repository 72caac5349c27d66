// SPDX-License-Identifier: BSD-3-Clause
//
// One request at a time to the kernel's rtnetlink, which answers within the system call.
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

// Returns 0, or negative errno with nothing open.
int weir_data_path_netlink_open(struct weir_data_path_netlink *kernel);
void weir_data_path_netlink_close(struct weir_data_path_netlink *kernel); // fine when not open

// Begin a request: flags besides NLM_F_REQUEST. It is in the struct until the next one.
struct nlmsghdr *weir_data_path_netlink_begin(
	struct weir_data_path_netlink *kernel, uint16_t type, uint16_t flags);

// Ask. take is called for what the answer holds; NULL = nothing is expected. Returns what the
// kernel says: 0 or negative errno.
int weir_data_path_netlink_ask(struct weir_data_path_netlink *kernel,
	const struct nlmsghdr *request, mnl_cb_t take, void *context);
