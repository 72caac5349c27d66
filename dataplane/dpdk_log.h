// SPDX-License-Identifier: BSD-3-Clause
//
// DPDK log: writes DPDK's messages to the log of the dataplane, marked "dpdk:".
//
// Threads: main, before rte_eal_init. Afterwards any thread of DPDK writes messages.
#pragma once

#include "log.h"

// Send DPDK's messages to log, which must outlive DPDK. Returns 0 or -ENOMEM.
int weir_dpdk_log_take(const struct weir_log *log);
// Returns the value of DPDK's --log-level for a log level of Weir.
const char *weir_dpdk_log_level(enum weir_log_level level);
