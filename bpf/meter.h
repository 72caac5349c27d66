/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// Meter: shared by meter.bpf.c and user space. User space maps weir_meter_shards and reads it; the
// CPUs that share a shard write it with atomic additions.
//
// A connection is *open* from the end of its handshake, so also while it waits in the accept queue,
// until the server has closed it (or its side of it), or it was reset. That time is its service
// time.
#pragma once

#include <linux/types.h>

#define WEIR_METER_SHARDS 32 // power of 2; CPUs share them
#define WEIR_METER_CONNECTIONS 65536 // open at a time, unless user space sets another number

// Service times in microseconds, 16 buckets for each power of 2, up to 2^34: 4.8 hours.
#define WEIR_METER_BUCKETS 496

// X(NAME, "name", "meaning"): counters of connections
// clang-format off
#define WEIR_METER_COUNTERS(X)                                                                     \
	X(OPENED, "opened", "handshake complete, or found open when measuring began")              \
	X(CLOSED, "closed", "of these: no longer open")                                            \
	X(FINISHED, "finished", "of these: closed in order; the service times are theirs")         \
	X(ABORTED, "aborted", "of these: reset by this server")                                    \
	X(RESET, "reset", "of these: reset by the client")                                         \
	X(LOST, "lost", "of these: the client no longer answered")                                 \
	X(UNTIMED, "untimed", "of the finished: opened before measuring began, without a time")    \
	X(UNTRACKED, "untracked", "not counted above: too many are open")
// clang-format on

enum weir_meter_counter {
#define X(name, key, text) WEIR_METER_##name,
	WEIR_METER_COUNTERS(X)
#undef X
		WEIR_METER_COUNTER_COUNT
};

struct weir_meter_shard {
	__u64 counter[WEIR_METER_COUNTER_COUNT];
	__u64 service_ns; // sum over the finished connections that have a time
	__u64 bucket[WEIR_METER_BUCKETS]; // of their service times
	__u64 reserved[7]; // a whole number of cache lines
};
_Static_assert(sizeof(struct weir_meter_shard) % 64 == 0, "shards share no cache line");

struct weir_meter_connection { // value of weir_meter_connections; the key is the socket
	__u64 start_ns; // CLOCK_MONOTONIC; 0 = not known
};

static inline __u32 weir_meter_bucket(__u64 us) {
	__u32 shift = 0;

	if (us >> 34) {
		return WEIR_METER_BUCKETS - 1;
	}
	for (__u32 step = 16; step > 0; step >>= 1) { // shift: us >> shift is from 16 to 31
		if (us >> shift >> step >> 4) {
			shift += step;
		}
	}
	return us < 16 ? (__u32)us : (shift + 1) * 16 + ((us >> shift) & 15);
}
