// SPDX-License-Identifier: BSD-3-Clause
//
// For TEST_GROUP: moves this process to a new network namespace with the loopback interface up.
// Needs root.
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int own_network_enter(void **state) {
	(void)state;
	if (unshare(CLONE_NEWNET) || system("ip link set lo up") != 0) {
		fprintf(stderr, "unshare: %s (root?)\n", strerror(errno));
		return -1;
	}
	return 0;
}
