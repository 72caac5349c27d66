// SPDX-License-Identifier: BSD-3-Clause
//
// Force moves: runs in place of weir-control. A hundred times a second, it requests each worker
// to move a bucket to another worker, in most cases a bucket with many packets. Like
// weir-control, it can be killed at any time and started again. Stealing of buckets must be
// enabled in the dataplane (workers.steal).
//
// usage: force_moves RUN_DIR MOVES
// Prints the total number of buckets moved, by any process, after every 10 moves. Exits when
// MOVES of its own requests have moved a bucket.
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "handover.h"
#include "mailbox.h"
#include "segment.h"

#define DEADLINE_NS 1000000000ull
#define PAUSE_NS 10000000 // between two requests to a worker, so that it can process packets
#define ATTACH_TRIES 100
#define EVERY 10u

struct forcing {
	struct weir_segment *segment;
	uint64_t sequence, random;
	uint64_t packets[WEIR_BUCKETS]; // packets of each bucket when the process started
};

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t next_random(struct forcing *forcing) {
	forcing->random = forcing->random * 6364136223846793005ull + 1442695040888963407ull;
	return forcing->random >> 33;
}

static uint64_t packets_of(const struct weir_segment *segment, uint32_t bucket) {
	uint64_t packets = 0;

	for (uint32_t w = 0; w < segment->workers; w++) {
		packets += weir_counter_read(&segment->bucket_packets[w].packets[bucket]);
	}
	return packets;
}

// Chooses a random bucket of the worker, in most cases a bucket with many packets: in three of
// four cases, a bucket with more packets replaces the bucket chosen so far.
static uint32_t choose_bucket(struct forcing *forcing, uint32_t worker) {
	uint32_t bucket = (uint32_t)next_random(forcing) % WEIR_BUCKETS;
	uint64_t most = 0;

	for (uint32_t i = 0;
		weir_segment_bucket_owner(forcing->segment, bucket) != worker && i < WEIR_BUCKETS;
		i++) {
		bucket = (bucket + 1) % WEIR_BUCKETS;
	}
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		uint64_t packets = packets_of(forcing->segment, b) - forcing->packets[b];

		if (packets > most && next_random(forcing) % 4 != 0 &&
			weir_segment_bucket_owner(forcing->segment, b) == worker) {
			most = packets;
			bucket = b;
		}
	}
	return bucket;
}

static void ask(struct forcing *forcing, uint32_t victim) {
	struct weir_segment *segment = forcing->segment;
	struct weir_message message = {.kind = WEIR_MESSAGE_STEAL, .sequence = ++forcing->sequence};
	uint32_t other = 1 + (uint32_t)next_random(forcing) % (segment->workers - 1);

	message.steal.bucket = choose_bucket(forcing, victim);
	message.steal.thief = (victim + other) % segment->workers;
	message.steal.deadline_ns = now_ns() + DEADLINE_NS;
	// Fails if the queue is full, because it still contains requests from another process.
	(void)weir_mailbox_send(&segment->control_boxes[victim].request,
		&segment->worker_boxes[victim].request, &message);
}

static bool answered(struct forcing *forcing, uint32_t victim, struct weir_message *ret) {
	struct weir_segment *segment = forcing->segment;

	return weir_mailbox_receive(&segment->worker_boxes[victim].response,
		&segment->control_boxes[victim].response, ret);
}

static uint64_t taken(const struct weir_segment *segment) {
	uint64_t sum = 0;

	for (uint32_t w = 0; w < segment->workers; w++) {
		sum += weir_counter_read(&segment->steal_counters[w].buckets_taken);
	}
	return sum;
}

static void force(struct forcing *forcing, uint64_t moves) {
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t confirmed = 0;

	for (uint32_t v = 0; v < forcing->segment->workers; v++) {
		ask(forcing, v);
	}
	while (confirmed < moves) {
		for (uint32_t v = 0; v < forcing->segment->workers; v++) {
			struct weir_message message;

			if (!answered(forcing, v, &message)) {
				continue;
			}
			confirmed += message.steal.answer == WEIR_BUCKET_CONFIRMED;
			if (message.steal.answer == WEIR_BUCKET_CONFIRMED &&
				confirmed % EVERY == 0) {
				printf("%" PRIu64 "\n", taken(forcing->segment));
				fflush(stdout);
			}
			ask(forcing, v);
		}
		nanosleep(&pause, NULL);
	}
}

// The dataplane may not have detected yet that the previous control process has exited.
static int attach(const char *run_dir, struct weir_segment **ret) {
	struct weir_handover handover;
	char why[256] = "";
	int connection, r = -1;

	for (unsigned int try = 0; r < 0 && try < ATTACH_TRIES; try++) {
		r = weir_handover_connect(run_dir, &handover, &connection, why, sizeof(why));
		if (r < 0) {
			(void)poll(NULL, 0, 50);
		}
	}
	if (r == 0) {
		r = weir_segment_attach(
			handover.statistics_fd, handover.tables_fd, ret, why, sizeof(why));
	}
	if (r < 0) {
		fprintf(stderr, "force_moves: %s\n", why);
	}
	return r;
}

int main(int argc, char **argv) {
	static struct forcing forcing;

	if (argc != 3) {
		fprintf(stderr, "usage: force_moves RUN_DIR MOVES\n");
		return 2;
	}
	if (attach(argv[1], &forcing.segment) < 0) {
		return 1;
	}
	if (forcing.segment->bucketing != WEIR_BUCKETING_YES || forcing.segment->workers < 2) {
		fprintf(stderr, "force_moves: flows are not in buckets\n");
		return 1;
	}
	forcing.random = now_ns();
	forcing.sequence = forcing.random;
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		forcing.packets[b] = packets_of(forcing.segment, b);
	}
	force(&forcing, strtoull(argv[2], NULL, 10));
	return 0; // the dataplane detaches this process when it exits
}
