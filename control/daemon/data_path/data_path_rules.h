// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel's part of the data path: policy rules and routes for IPv4 and IPv6. Packets of one
// user, from one block of source ports, are routed only through one device:
//
//   ip rule:   PRIORITY: from all uidrange UID-UID ipproto tcp sport FIRST-LAST lookup TABLE
//              PRIORITY: from all uidrange UID-UID ipproto udp sport FIRST-LAST lookup TABLE
//   TABLE:     default dev DEVICE metric 1
//              unreachable default metric 2      (when the device is down or removed)
//
// When the process ends, it has already dropped its privileges, so it cannot remove the rules and
// the unreachable route. The next call for this table replaces the rules and the routes.
//
// Threads: any. Needs CAP_NET_ADMIN.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct weir_data_path_rules {
	unsigned int ifindex;
	uint32_t table;
	uid_t uid;
	uint16_t port_first, port_last; // host order
};

// Sets the rules and routes, and sets the device up. The MTU of the device is 1280, so that outer
// headers fit into the usual path MTU of 1500. *ret_ipv6: 0, or negative errno if the rules and
// routes for IPv6 could not be set; IPv4 works even then. Returns 0, or negative errno with one
// line in why.
int weir_data_path_rules_set(
	const struct weir_data_path_rules *rules, int *ret_ipv6, char *why, size_t why_bytes);
