/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// Meter: definitions for meter.bpf.c and user space. User space maps and reads weir_meter_shards;
// CPUs that share a shard update it with atomic additions.
//
// A connection becomes *open* when its handshake is complete, even if it is still in the accept
// queue. A connection is closed when the server sends a FIN, when the connection is reset, or when
// it times out. The service time of a connection that the server closes by FIN is the time for
// which the connection is open.
#pragma once

#include <linux/types.h>

#define WEIR_METER_SHARDS 32 // power of 2; several CPUs may share a shard
// Default maximum number of open connections that are tracked; user space may change it.
#define WEIR_METER_CONNECTIONS 65536

// Number of buckets of the histogram of service times: 16 buckets for each power of 2, in
// microseconds, up to 2^34 us (4.8 hours).
#define WEIR_METER_BUCKETS 496

// Counters of connections. X(NAME, "name", "meaning")
// clang-format off
#define WEIR_METER_COUNTERS(X)                                                                     \
	X(OPENED, "opened", "connections with a complete handshake, or open when measuring began")              \
	X(CLOSED, "closed", "opened connections that have been closed")                                            \
	X(FINISHED, "finished", "connections closed by FIN")         \
	X(ABORTED, "aborted", "connections reset by this server (RST)")                                    \
	X(RESET, "reset", "connections reset by the client (RST)")                                         \
	X(LOST, "lost", "connections closed because the client no longer answered")                                 \
	X(TIMED, "timed", "finished connections with a service time: opened after measuring began")    \
	X(UNTRACKED, "untracked", "connections not counted as opened: the maximum (--connections) was already open")
// clang-format on

enum weir_meter_counter {
#define X(name, key, text) WEIR_METER_##name,
	WEIR_METER_COUNTERS(X)
#undef X
		WEIR_METER_COUNTER_COUNT
};

struct weir_meter_shard {
	__u64 counter[WEIR_METER_COUNTER_COUNT];
	__u64 service_ns; // sum over timed connections
	__u64 bucket[WEIR_METER_BUCKETS]; // histogram of the service times
	__u64 reserved[7]; // padding to a whole number of cache lines
};
_Static_assert(sizeof(struct weir_meter_shard) % 64 == 0, "shards must not share cache lines");

struct weir_meter_connection { // value of weir_meter_connections; the key is the socket
	__u64 start_ns; // CLOCK_MONOTONIC; 0 = not known
};

// Returns the bucket of a service time. The last bucket also holds all longer times.
static inline __u32 weir_meter_bucket(__u64 us) {
	__u32 shift = 0;

	if (us >> 34) {
		return WEIR_METER_BUCKETS - 1;
	}
	// For us >= 16, find the shift for which us >> shift is from 16 to 31.
	for (__u32 step = 16; step > 0; step >>= 1) {
		if (us >> shift >> step >> 4) {
			shift += step;
		}
	}
	return us < 16 ? (__u32)us : (shift + 1) * 16 + ((us >> shift) & 15);
}
