// SPDX-License-Identifier: BSD-3-Clause
//
// Log of the dataplane: one line per event, written to a descriptor (stderr).
// `2026-01-01T00:00:00.000Z info  port wan: up`
// Messages of DPDK come the same way, marked "dpdk:". Control characters are replaced.
//
// Threads: any but a worker (S1); a line is one write. No globals.
#pragma once

// X(NAME, "name")
#define WEIR_LOG_LEVELS(X) X(ERROR, "error") X(WARN, "warn") X(INFO, "info") X(DEBUG, "debug")

enum weir_log_level {
#define X(name, key) WEIR_LOG_##name,
	WEIR_LOG_LEVELS(X)
#undef X
};

struct weir_log {
	int fd;
	enum weir_log_level level; // what is less urgent is not written
};

void weir_log_write(const struct weir_log *log, enum weir_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

int weir_log_level_parse(const char *name, enum weir_log_level *ret); // 0, -EINVAL

// Let DPDK's messages come here. log must outlive DPDK. Before rte_eal_init.
// Returns 0 or -ENOMEM.
int weir_log_take_dpdk(const struct weir_log *log);
// What DPDK should log for a level of ours, as the value of its --log-level.
const char *weir_log_dpdk_level(enum weir_log_level level);
