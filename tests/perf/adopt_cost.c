// SPDX-License-Identifier: BSD-3-Clause
//
// Measures what a publication costs the worker that applies it: the worker's longest iteration
// after the publication, compared with the same iterations without a publication. An iteration is a
// burst of 64 SYNs of new flows and the work after the burst. All iterations are repeated from the
// same initial state, and the minimum time of each iteration is used. This excludes interrupts,
// because they affect different iterations each time.
//
// usage: adopt_cost [REPEATS]
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frames.h"
#include "pipeline_lab.h"
#include "service_table.h"
#include "test.h"

#define BACKENDS 10000u
#define SERVICES 1000u
#define BINDS 4000u
#define SLOTS 65537u
#define ROWS 1000u // rows changed by one publication
#define TURNS 40u // iterations after a publication: 1,000 rows take 32 iterations
#define REPEATS 50u

enum change {
	NOTHING,
	SELECTION,
	SELECTION_ELSEWHERE,
	ROWS_OF_BACKENDS,
	SELECTIONS,
	SERVICE_TABLE
};

struct bench {
	struct weir_segment *segment, *control;
	struct weir_writer *writer;
	struct weir_pipeline *pipeline;
	uint64_t now_ns;
	uint32_t flow; // number of the flow of the next SYN
	uint64_t serial; // serial number, so that each publication differs from the previous one
};

static uint64_t clock_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool open_bench(struct bench *bench) {
	static const struct weir_port_info port = {.name = "wan", .mtu = 1500};
	const struct weir_segment_params segment = {.workers = 1,
		.ports = 1,
		.max_services = SERVICES,
		.max_backends = BACKENDS,
		.heap_bytes = 256u << 20,
		.tsc_hz = 1000000000,
		.port_info = &port};
	struct weir_pipeline_params params = lab_params();

	*bench = (struct bench){.now_ns = LAB_NOW};
	if (weir_segment_create(&segment, &bench->segment) < 0 ||
		weir_segment_attach_own(bench->segment, &bench->control) < 0 ||
		weir_writer_open(bench->control, &bench->writer) < 0 ||
		weir_writer_reserve(bench->writer, SERVICES, BACKENDS) < 0 ||
		weir_segment_follow(bench->segment) < 0) {
		return false;
	}
	params.segment = bench->segment;
	return weir_pipeline_create(&params, &bench->pipeline) == 0;
}

static void close_bench(struct bench *bench) {
	weir_pipeline_free(bench->pipeline);
	weir_writer_free(bench->writer);
	weir_segment_free(bench->control);
	weir_segment_free(bench->segment);
}

// --- publications -----------------------------------------------------------------------------

static void publish_rows(struct bench *bench, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		const struct weir_backend_path path = {
			.address = {10, 0, (uint8_t)(i >> 8), (uint8_t)i},
			.source = {192, 0, 2, 1},
			.next_hop_mac = {2, 0, 0, 0, (uint8_t)(bench->serial >> 8),
				(uint8_t)bench->serial},
			.family = 4,
			.mtu = 1500,
			.resolved = 1};
		struct weir_backend_row row;

		weir_backend_row_build(&path, &row);
		weir_writer_publish_row(bench->writer, (uint16_t)i, &row);
	}
}

static bool publish_selection(
	struct bench *bench, uint16_t service, enum weir_policy policy, uint32_t backends) {
	static struct weir_selection_member members[BACKENDS];
	struct weir_selection_params params = weir_selection_defaults(service, policy, SLOTS);
	const struct weir_root root = {.kind = WEIR_BLOB_SELECTION, .service = service};
	struct weir_selection *selection;

	for (uint32_t i = 0; i < backends; i++) {
		members[i] =
			(struct weir_selection_member){.identity = (i + 1) * 0x9e3779b97f4a7c15ull,
				.id = (uint16_t)i,
				.weight = 100 + (uint32_t)((i + bench->serial) % 7)};
	}
	return weir_selection_build(bench->writer, &params, members, backends, &selection) == 0 &&
	       weir_writer_publish(bench->writer, root, selection) == 0;
}

static bool publish_services(struct bench *bench) {
	static struct weir_service_bind binds[BINDS];
	struct weir_service_table *table;

	for (uint32_t i = 0; i < BINDS; i++) {
		binds[i] = (struct weir_service_bind){
			.address = {198, 51, (uint8_t)(i >> 8), (uint8_t)i},
			.family = 4,
			.protocol = IPPROTO_TCP,
			.port_first = 443,
			.port_last = 443,
			.service = (uint16_t)(i % SERVICES)};
	}
	memcpy(binds[0].address, frame_vip4, 4);
	binds[0].port_first = 80;
	binds[0].port_last = 80;
	return weir_service_table_build(bench->writer, binds, BINDS, bench->serial, &table) == 0 &&
	       weir_writer_publish(
		       bench->writer, (struct weir_root){.kind = WEIR_BLOB_SERVICES}, table) == 0;
}

static bool publish(struct bench *bench, enum change change, enum weir_policy policy) {
	bool ok = true;

	bench->serial++;
	switch (change) {
	case NOTHING:
		break;
	case SELECTION:
		return publish_selection(bench, 0, policy, BACKENDS);
	case SELECTION_ELSEWHERE:
		return publish_selection(bench, SERVICES - 1, policy, BACKENDS);
	case ROWS_OF_BACKENDS:
		publish_rows(bench, ROWS);
		break;
	case SELECTIONS:
		for (uint16_t service = 1; ok && service <= 32; service++) {
			ok = publish_selection(bench, service, WEIR_POLICY_ROUND_ROBIN, 100);
		}
		return ok;
	case SERVICE_TABLE:
		return publish_services(bench);
	}
	return true;
}

// --- iterations--------------------------------------------------------------------------------

static uint64_t turn(struct bench *bench) {
	struct weir_verdict verdicts[WEIR_BURST];
	struct rte_mbuf *pkts[WEIR_BURST];
	uint64_t start, end;

	for (unsigned int i = 0; i < WEIR_BURST; i++, bench->flow++) {
		uint8_t source[16] = {100, (uint8_t)(bench->flow >> 16),
			(uint8_t)(bench->flow >> 8), (uint8_t)bench->flow};
		struct frame_spec spec = {
			.family = 4, .protocol = IPPROTO_TCP, .source = source, .tcp_flags = 0x02};
		struct frame frame;

		frame_build(&spec, &frame);
		pkts[i] = frame_mbuf(frame.bytes, frame.n, 128);
	}
	start = clock_ns();
	weir_pipeline_process(bench->pipeline, pkts, WEIR_BURST, 0, bench->now_ns, verdicts);
	weir_pipeline_maintain(bench->pipeline, bench->now_ns);
	weir_pipeline_quiescent(bench->pipeline);
	end = clock_ns();
	for (unsigned int i = 0; i < WEIR_BURST; i++) {
		frame_mbuf_free(pkts[i]);
	}
	bench->now_ns += 100000;
	return end - start;
}

// Returns the time of the longest iteration after a change; the time of an iteration is the minimum
// of all repeats. Returns 0 on failure.
static uint64_t longest_turn(
	struct bench *bench, enum change change, enum weir_policy policy, unsigned int repeats) {
	uint64_t least[TURNS], longest = 0;

	memset(least, 0xff, sizeof(least));
	for (unsigned int repeat = 0; repeat < repeats; repeat++) {
		if (!publish(bench, change, policy)) {
			return 0;
		}
		for (unsigned int i = 0; i < TURNS; i++) {
			uint64_t took = turn(bench);

			least[i] = took < least[i] ? took : least[i];
		}
		weir_writer_reclaim(bench->writer);
	}
	for (unsigned int i = 0; i < TURNS; i++) {
		longest = least[i] > longest ? least[i] : longest;
	}
	return longest;
}

static bool show(struct bench *bench, const char *name, enum change change, enum weir_policy policy,
	unsigned int repeats) {
	uint64_t undisturbed = longest_turn(bench, NOTHING, policy, repeats);
	uint64_t longest = longest_turn(bench, change, policy, repeats);
	uint64_t elsewhere =
		change == SELECTION ? longest_turn(bench, SELECTION_ELSEWHERE, policy, repeats) : 0;

	if (longest == 0 || undisturbed == 0 || (change == SELECTION && elsewhere == 0)) {
		fprintf(stderr, "%s: cannot publish\n", name);
		return false;
	}
	printf("%-52s %9.2f us %9.2f us", name, (double)undisturbed / 1e3, (double)longest / 1e3);
	if (change == SELECTION) {
		printf(" %9.2f us", (double)elsewhere / 1e3);
	}
	printf("\n");
	return true;
}

static bool measure(struct bench *bench, unsigned int repeats) {
	bool ok = true;
	char name[96];

	printf("%-52s %12s %12s %12s\n", "longest turn of 64 new flows", "undisturbed", "behind it",
		"elsewhere");
	for (unsigned int policy = 0; ok && policy < WEIR_POLICY_COUNT; policy++) {
		snprintf(name, sizeof(name), "selection of 10,000, %s",
			weir_policy_name((enum weir_policy)policy));
		ok = publish(bench, SELECTION, (enum weir_policy)policy);
		ok = ok && show(bench, name, SELECTION, (enum weir_policy)policy, repeats);
	}
	return ok && show(bench, "32 selections of 100", SELECTIONS, WEIR_POLICY_MAGLEV, repeats) &&
	       show(bench, "1,000 rows", ROWS_OF_BACKENDS, WEIR_POLICY_MAGLEV, repeats) &&
	       show(bench, "service table of 4,000 binds", SERVICE_TABLE, WEIR_POLICY_MAGLEV,
		       repeats);
}

int main(int argc, char **argv) {
	unsigned int repeats = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : REPEATS;
	struct bench bench;
	bool ok;

	if (repeats < 1) {
		fprintf(stderr, "usage: %s [REPEATS]\n", argv[0]);
		return 2;
	}
	if (lab_eal(NULL) < 0 || !open_bench(&bench)) {
		fprintf(stderr, "cannot make a pipeline\n");
		return 1;
	}
	publish_rows(&bench, BACKENDS);
	ok = publish_services(&bench) && publish_selection(&bench, 0, WEIR_POLICY_MAGLEV, BACKENDS);
	weir_pipeline_online(bench.pipeline);
	ok = ok && measure(&bench, repeats);
	weir_pipeline_offline(bench.pipeline);
	close_bench(&bench);
	return ok ? 0 : 1;
}
