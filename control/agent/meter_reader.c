// SPDX-License-Identifier: BSD-3-Clause
#include "meter_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHARDS_BYTES (sizeof(struct weir_meter_shard) * WEIR_METER_SHARDS)

struct weir_meter {
	const struct weir_meter_shard *shards;
	size_t bytes; // size of the mapping
};

const char *weir_meter_counter_name(enum weir_meter_counter counter) {
	static const char *const names[] = {
#define X(name, key, text) [WEIR_METER_##name] = key,
		WEIR_METER_COUNTERS(X)
#undef X
	};

	return (unsigned int)counter < WEIR_METER_COUNTER_COUNT ? names[counter] : "unknown";
}

const char *weir_meter_counter_text(enum weir_meter_counter counter) {
	static const char *const texts[] = {
#define X(name, key, text) [WEIR_METER_##name] = text,
		WEIR_METER_COUNTERS(X)
#undef X
	};

	return (unsigned int)counter < WEIR_METER_COUNTER_COUNT ? texts[counter] : "unknown";
}

int weir_meter_open(int fd, struct weir_meter **ret) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct weir_meter *meter = malloc(sizeof(*meter));
	void *shards;

	if (meter == NULL) {
		return -ENOMEM;
	}
	meter->bytes = (SHARDS_BYTES + page - 1) / page * page;
	shards = mmap(NULL, meter->bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (shards == MAP_FAILED) {
		free(meter);
		return -errno;
	}
	meter->shards = shards;
	*ret = meter;
	return 0;
}

void weir_meter_close(struct weir_meter *meter) {
	if (meter != NULL) {
		munmap((void *)(uintptr_t)meter->shards, meter->bytes);
		free(meter);
	}
}

static uint64_t take(const __u64 *counter) {
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void weir_meter_read(const struct weir_meter *meter, struct weir_meter_counts *ret) {
	struct weir_meter_counts counts = {0};

	for (uint32_t i = 0; i < WEIR_METER_SHARDS; i++) {
		const struct weir_meter_shard *shard = &meter->shards[i];

		for (uint32_t j = 0; j < WEIR_METER_COUNTER_COUNT; j++) {
			counts.counter[j] += take(&shard->counter[j]);
		}
		counts.service_ns += take(&shard->service_ns);
	}
	*ret = counts;
}

void weir_meter_read_times(const struct weir_meter *meter, struct weir_meter_times *ret) {
	struct weir_meter_times times = {0};

	for (uint32_t i = 0; i < WEIR_METER_SHARDS; i++) {
		for (uint32_t j = 0; j < WEIR_METER_BUCKETS; j++) {
			times.bucket[j] += take(&meter->shards[i].bucket[j]);
		}
	}
	*ret = times;
}

uint64_t weir_meter_active(const struct weir_meter_counts *counts) {
	uint64_t opened = counts->counter[WEIR_METER_OPENED];
	uint64_t closed = counts->counter[WEIR_METER_CLOSED];

	// closed may be above opened, because the shards are read one after the other. A
	// connection may be opened in a shard that was already read, and then be closed in a shard
	// that is read later.
	return opened > closed ? opened - closed : 0;
}

// Returns the lower bound of a bucket, in microseconds.
static double bucket_start(uint32_t bucket) {
	if (bucket < 16) {
		return bucket;
	}
	return (double)((uint64_t)(16 + bucket % 16) << (bucket / 16 - 1));
}

uint64_t weir_meter_median_us(
	const struct weir_meter_times *before, const struct weir_meter_times *now, double *ret) {
	uint64_t count = 0, below = 0;

	for (uint32_t i = 0; i < WEIR_METER_BUCKETS; i++) {
		count += now->bucket[i] - before->bucket[i];
	}
	for (uint32_t i = 0; i < WEIR_METER_BUCKETS; i++) {
		uint64_t here = now->bucket[i] - before->bucket[i];

		if (here > 0 && (below + here) * 2 >= count) {
			*ret = (bucket_start(i) + bucket_start(i + 1)) / 2;
			return count;
		}
		below += here;
	}
	return count;
}
