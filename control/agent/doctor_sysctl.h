// SPDX-License-Identifier: BSD-3-Clause
//
// Kernel settings (sysctl) for IPv4 on an interface, for weir-agent doctor.
//
// Threads: any. No logging.
#pragma once

#include <stdint.h>

#include "tree.h"

// Returns the effective value of the key rp_filter, arp_ignore, arp_announce or
// promote_secondaries of net.ipv4.conf.
// For these keys, the kernel uses the value for "all" or the value for the interface, whichever is
// larger. A value that cannot be read counts as 0.
static inline int64_t weir_sysctl_effective(const char *interface, const char *key) {
	int64_t all = 0, own = 0;

	(void)weir_tree_number("", &all, "/proc/sys/net/ipv4/conf/all/%s", key);
	(void)weir_tree_number("", &own, "/proc/sys/net/ipv4/conf/%s/%s", interface, key);
	return all > own ? all : own;
}
