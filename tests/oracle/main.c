// SPDX-License-Identifier: BSD-3-Clause
//
// stress-packets: sends mutated packets through the production pipeline, and compares each result
// with the result of an oracle that was written from the documents. It stops at the first
// difference, and prints seed, packet, frame, expected and actual result. The same seed gives the
// same packets.
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "fuzz.h"
#include "rig.h"
#include "traffic.h"

#define WORLD_PACKETS 20000u // number of packets with one plan
#define BEGIN_NS 1000000000000ull

struct run {
	struct judge judge;
	struct rig rig;
	struct plan plan;
	struct traffic traffic;
	struct random random; // random numbers for everything except frames
	uint64_t seed; // seed of this plan
	uint64_t packets; // packets with this plan
	uint8_t frames[BURST_MAX][TRAFFIC_FRAME_MAX];
	struct rig_burst burst;
	// Numbers of packets by action and by drop reason
	uint64_t totals[4], drops[WEIR_DROP_REASON_COUNT];
};

static void print_hex(const char *name, const uint8_t *bytes, uint32_t n) {
	printf("%s (%u bytes) ", name, n);
	for (uint32_t i = 0; i < n; i++) {
		printf("%02x", bytes[i]);
	}
	printf("\n");
}

// Print the data that is needed to find the cause of an error.
static bool report(const struct run *run) {
	const struct judge *judge = &run->judge;

	printf("seed %" PRIu64 ", packet %" PRIu64 " of this seed:\n%s", run->seed,
		run->packets + (judge->wrong > 0 ? (uint32_t)judge->wrong : 0), judge->text);
	if (judge->wrong >= 0) {
		const struct seen *seen = &run->burst.seen[judge->wrong];

		printf("port %u, headroom %u, tailroom %u, readable %u, tag %u%s, packet %d of a "
		       "burst of %u\n",
			run->burst.judged.in_port, seen->headroom, seen->tailroom,
			seen->frame.readable, seen->tag,
			seen->frame.checked ? ", checksum marked good" : "", judge->wrong,
			run->burst.judged.n);
		print_hex("frame", seen->frame.bytes, seen->frame.n);
		print_hex("sent", seen->out, seen->out_n);
	}
	printf("repeat it with --seed %" PRIu64 " --packets %u\n", run->seed, WORLD_PACKETS);
	return false;
}

// --- between bursts -----------------------------------------------------------------------------

static void pass_time(struct run *run) {
	uint32_t kind = random_below(&run->random, 1000);
	uint64_t ms = 1000000;

	if (kind < 500) {
		rig_wait(&run->rig, random_below(&run->random, 500000));
	} else if (kind < 980) {
		rig_wait(&run->rig, random_below(&run->random, 4000000));
	} else if (kind < 998) {
		rig_wait(&run->rig, random_below(&run->random, 300) * ms);
	} else {
		rig_wait(&run->rig, random_below(&run->random, 8000) * ms);
	}
}

// --- a world ------------------------------------------------------------------------------------

static bool run_burst(struct run *run, uint32_t n, bool flows) {
	struct rig_burst *burst = &run->burst;
	bool good;

	for (uint32_t i = 0; i < n; i++) {
		struct reception reception;
		uint32_t bytes = traffic_frame(&run->traffic, run->frames[i], &reception);

		rig_receive(burst, run->frames[i], bytes, &reception);
	}
	rig_process(&run->rig, burst, (uint8_t)random_below(&run->random, PLAN_PORTS));
	good = judge_burst(&run->judge, &burst->judged, run->rig.now_ns) &&
	       judge_counters(&run->judge, run->rig.memory.dataplane, flows, run->rig.now_ns);
	if (!good) {
		return report(run);
	}
	rig_free(burst);
	run->packets += n;
	return true;
}

// Check that all flows end when no more packets arrive.
static bool run_out(struct run *run) {
	rig_wait(&run->rig, 32000000000ull);
	run->judge.text[0] = '\0';
	run->judge.wrong = -1;
	if (!judge_counters(&run->judge, run->rig.memory.dataplane, true, run->rig.now_ns)) {
		return report(run);
	}
	REQUIRE(run->judge.counts.all.most == 0);
	return true;
}

static bool run_world(struct run *run, uint64_t seed, uint64_t packets) {
	uint32_t bursts = 0;
	bool good = true;

	memset(run->frames, 0, sizeof(run->frames));
	run->seed = seed;
	run->packets = 0;
	run->random.state = seed * 0x9e3779b97f4a7c15ull | 1;
	plan_draw(&run->plan, &run->random);
	rig_init(&run->rig, &run->plan, BEGIN_NS, random64(&run->random));
	judge_start(&run->judge, &run->plan, BEGIN_NS);
	traffic_start(&run->traffic, &run->plan, random64(&run->random));
	while (good && run->packets < packets) {
		uint32_t n =
			1 + random_below(&run->random, chance(&run->random, 20) ? BURST_MAX : 24);
		uint64_t left = packets - run->packets;

		good = run_burst(run, left < n ? (uint32_t)left : n, bursts++ % 256 == 0);
		pass_time(run);
		if (chance(&run->random, 4)) {
			rig_change(&run->rig, &run->plan, &run->random);
			judge_change(&run->judge, run->rig.now_ns);
		}
	}
	good = good && run_out(run);
	run->totals[0] += run->judge.forwarded;
	run->totals[1] += run->judge.replied;
	run->totals[2] += run->judge.to_kernel;
	run->totals[3] += run->judge.dropped;
	for (uint32_t i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		run->drops[i] += run->judge.drops[i];
	}
	if (good) {
		rig_fini(&run->rig);
	}
	return good;
}

// --- program ------------------------------------------------------------------------------------

static double seconds(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print_totals(const struct run *run, uint64_t packets, double took) {
	printf("%" PRIu64 " packets: %" PRIu64 " sent to backends, %" PRIu64
	       " echo replies, %" PRIu64 " to the kernel, %" PRIu64 " dropped; %.0f packets/s\n",
		packets, run->totals[0], run->totals[1], run->totals[2], run->totals[3],
		(double)packets / took);
	for (uint32_t i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		if (run->drops[i] > 0) {
			printf("  %" PRIu64 " %s\n", run->drops[i],
				weir_drop_reason_name((enum weir_drop_reason)i));
		}
	}
	fflush(stdout);
}

static const char usage[] = "usage: stress_packets [--seed N] [--packets N] [--progress]\n"
			    "Sends N mutated packets (default 1000000) through the pipeline and "
			    "compares what comes out\n"
			    "with an oracle. Each 20000 packets have a seed of their own, N, N + 1 "
			    "and so on (default 1).\n"
			    "Example: stress_packets --seed 7 --packets 20000\n";

int main(int argc, char **argv) {
	static const struct option options[] = {{"seed", required_argument, NULL, 's'},
		{"packets", required_argument, NULL, 'p'}, {"progress", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	uint64_t seed = 1, packets = 1000000, done = 0;
	struct run *run = calloc(1, sizeof(*run));
	bool progress = false;
	double begin = seconds();
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'p':
			packets = strtoull(optarg, NULL, 0);
			break;
		case 'v':
			progress = true;
			break;
		default:
			fputs(usage, option == 'h' ? stdout : stderr);
			return option == 'h' ? 0 : 2;
		}
	}
	REQUIRE(run != NULL);
	rig_start();
	judge_init(&run->judge);
	for (uint64_t world = 0; done < packets; world++) {
		uint64_t n = packets - done < WORLD_PACKETS ? packets - done : WORLD_PACKETS;

		if (!run_world(run, seed + world, n)) {
			fflush(stdout);
			// Exit without a leak check: the buffers of the burst were not freed
			_Exit(1);
		}
		done += n;
		if (progress && world % 100 == 99) {
			print_totals(run, done, seconds() - begin);
		}
	}
	print_totals(run, done, seconds() - begin);
	judge_fini(&run->judge);
	free(run);
	return 0;
}
