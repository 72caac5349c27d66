// SPDX-License-Identifier: BSD-3-Clause
//
// Parts of the flow table move from one pipeline to another. The gauges and the flow counts of the
// policies move with the flows.
#include <stdlib.h>
#include <string.h>

#include <rte_memory.h>

#include "burst.h"
#include "distribute.h"
#include "flow_parts.h"
#include "flow_query.h"
#include "pipeline_lab.h"
#include "pipeline_parts.h"
#include "test.h"

#define SYN 0x02
#define ACK 0x10
#define FIN_ACK 0x11
#define FLOWS 3000

// The lab's pipeline belongs to worker 1, the second pipeline to worker 0. Each worker owns half of
// the parts.
struct two {
	struct lab *lab;
	struct weir_flow_memory *memory;
	struct weir_flow_parcel *parcel;
	struct weir_pipeline *pipeline[2]; // pipelines by worker
};

static struct two two_make(enum weir_policy policy, uint32_t max_active_flows) {
	struct weir_selection_params selection = weir_selection_defaults(0, policy, LAB_SLOTS);
	struct weir_pipeline_params params = lab_params();
	struct two two;

	assert_int_equal(weir_flow_memory_create(8192, 25, true, SOCKET_ID_ANY, &two.memory), 0);
	assert_int_equal(
		weir_flow_parcel_create(two.memory, LAB_BACKENDS, SOCKET_ID_ANY, &two.parcel), 0);
	params.flow_table.memory = two.memory;
	params.flow_table.secret = 4711;
	two.lab = lab_open(&params);
	two.pipeline[1] = two.lab->pipeline;
	params = two.lab->params;
	params.worker = 0;
	assert_int_equal(weir_pipeline_create(&params, &two.pipeline[0]), 0);
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		weir_pipeline_own_part(two.pipeline[part % 2], part);
	}
	lab_publish_default(two.lab);
	selection.settings.max_active_flows = max_active_flows;
	selection.settings.needs |= WEIR_NEEDS_HALF_OPEN;
	lab_publish_policy(two.lab, &selection, (uint16_t[]){0, 1, 2, 3}, 4);
	weir_pipeline_settle(two.pipeline[0]);
	weir_pipeline_settle(two.pipeline[1]);
	return two;
}

static void two_free(struct two *two) {
	weir_pipeline_free(two->pipeline[0]);
	weir_flow_parcel_free(two->parcel);
	lab_free(two->lab);
	weir_flow_memory_free(two->memory);
}

static uint32_t part_of(struct two *two, struct rte_mbuf *m) {
	uint32_t part = weir_pipeline_distribute(two->pipeline[0], m);

	assert_int_equal(weir_pipeline_distribute(two->pipeline[1], m), part);
	assert_true(part < WEIR_FLOW_PARTS);
	return part;
}

static struct frame_spec packet(uint16_t n, uint8_t flags) {
	struct frame_spec spec = lab_tcp(n, flags);

	spec.family = n % 3 == 0 ? 6 : 4;
	return spec;
}

// Pass a packet to the worker that owns its part.
static struct weir_verdict send(struct two *two, uint16_t n, uint8_t flags, uint32_t *ret_part) {
	struct frame_spec spec = packet(n, flags);
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct frame f;
	uint32_t w;

	frame_build(&spec, &f);
	m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
	*ret_part = part_of(two, m);
	w = weir_pipeline_owns_part(two->pipeline[1], *ret_part);
	assert_true(weir_pipeline_owns_part(two->pipeline[w], *ret_part));
	assert_false(weir_pipeline_owns_part(two->pipeline[!w], *ret_part));
	weir_pipeline_process(two->pipeline[w], &m, 1, LAB_IN_PORT, two->lab->now_ns, &verdict);
	weir_pipeline_maintain(two->pipeline[w], two->lab->now_ns);
	frame_mbuf_free(m);
	return verdict;
}

static void maintain(struct two *two) {
	weir_pipeline_maintain(two->pipeline[0], two->lab->now_ns);
	weir_pipeline_maintain(two->pipeline[1], two->lab->now_ns);
}

struct sums {
	uint64_t active[LAB_BACKENDS], open[LAB_BACKENDS], half_open[LAB_BACKENDS];
	uint64_t service_active, service_open, policy_open, flows;
};

static void add(const struct two *two, uint32_t w, struct sums *sums) {
	const struct weir_segment *segment = two->lab->segment;
	const struct weir_share_counters *s = weir_segment_service_counters(segment, w, 0);

	for (uint32_t id = 0; id < LAB_BACKENDS; id++) {
		const struct weir_share_counters *b = weir_segment_backend_counters(segment, w, id);
		const struct weir_policy_backend *known = &two->pipeline[w]->policy.backends[id];

		sums->active[id] += b->active_flows;
		sums->open[id] += b->open_flows;
		sums->half_open[id] += known->half_open;
		sums->policy_open += known->active;
		assert_int_equal(known->active, b->open_flows);
		assert_int_equal(known->half_open, b->half_open);
	}
	sums->service_active += s->active_flows;
	sums->service_open += s->open_flows;
	sums->flows += segment->worker_counters[w].flows;
}

static struct sums sum(const struct two *two) {
	struct sums sums = {0};

	add(two, 0, &sums);
	add(two, 1, &sums);
	return sums;
}

static void begin_flows(struct two *two, uint16_t *backends) {
	uint32_t part;

	for (uint16_t n = 0; n < FLOWS; n++) {
		backends[n] = send(two, n, SYN, &part).backend;
		if (n % 4 != 0) {
			assert_int_equal(send(two, n, ACK, &part).backend, backends[n]);
		}
		if (n % 8 == 1) {
			assert_int_equal(send(two, n, FIN_ACK, &part).backend, backends[n]);
		}
	}
}

// While a part moves, its flows may be counted twice, but must not be missing from the sums.
static void check_on_the_way(const struct two *two, const struct sums *before) {
	struct sums now = sum(two);

	assert_in_range(now.service_active, before->service_active, before->service_active + FLOWS);
	assert_in_range(now.flows, before->flows, before->flows + FLOWS);
	for (uint32_t id = 0; id < 4; id++) {
		assert_true(now.active[id] >= before->active[id]);
		assert_true(now.open[id] >= before->open[id]);
	}
}

static void move(struct two *two, uint32_t part, const struct sums *before) {
	bool w = weir_pipeline_owns_part(two->pipeline[1], part);

	while (!weir_pipeline_release_part(two->pipeline[w], part, two->parcel)) {
		maintain(two);
		check_on_the_way(two, before);
	}
	maintain(two);
	check_on_the_way(two, before);
	while (!weir_pipeline_adopt_part(two->pipeline[!w], two->parcel, two->lab->now_ns)) {
		maintain(two);
		check_on_the_way(two, before);
	}
	maintain(two);
	check_on_the_way(two, before);
	while (!weir_pipeline_settle_part(two->pipeline[w], two->parcel)) {
		maintain(two);
	}
	maintain(two);
	assert_int_equal(two->parcel->state, WEIR_FLOW_PARCEL_EMPTY);
}

TEST_GROUP(lab_eal);

TEST(parts_move_gauges_and_policy_counts) {
	struct two two = two_make(WEIR_POLICY_LEAST_LOADED, 0);
	uint16_t backends[FLOWS];
	struct sums before, after;
	uint32_t part;

	begin_flows(&two, backends);
	maintain(&two);
	before = sum(&two);
	assert_int_equal(before.service_active, FLOWS);
	assert_int_equal(before.flows, FLOWS);
	assert_int_equal(before.service_open, before.policy_open);
	assert_true(before.half_open[0] > 0 && before.service_open < FLOWS);
	for (uint32_t i = 0; i < WEIR_FLOW_PARTS; i++) {
		move(&two, i * 601 % WEIR_FLOW_PARTS, &before);
		after = sum(&two);
		assert_memory_equal(&after, &before, sizeof(after));
	}
	for (uint32_t i = 0; i < WEIR_FLOW_PARTS; i += 2) { // now move all parts to worker 0
		move(&two, i, &before);
	}
	after = sum(&two);
	assert_memory_equal(&after, &before, sizeof(after));
	memset(&after, 0, sizeof(after));
	add(&two, 1, &after);
	assert_int_equal(after.service_active, 0);
	assert_int_equal(after.policy_open, 0);
	for (uint16_t n = 0; n < FLOWS; n++) { // flows keep their backends
		struct weir_verdict verdict = send(&two, n, ACK, &part);

		assert_int_equal(verdict.backend, backends[n]);
		assert_int_equal(verdict.choice, WEIR_CHOICE_FLOW);
	}
	for (uint32_t i = 0; i < 910 * 20; i++) {
		two.lab->now_ns += 50000000;
		maintain(&two);
	}
	after = sum(&two);
	// The worker that now owns the flows has counted them as ended.
	assert_int_equal(after.service_active, 0);
	assert_int_equal(after.service_open, 0);
	assert_int_equal(after.policy_open, 0);
	assert_int_equal(after.flows, 0);
	two_free(&two);
}

// All backends have reached their limit of established flows. Then their flows move to another
// worker. After the move, the old worker counts the backends as below the limit, and the new worker
// counts them as at the limit.
TEST(parts_move_flows_of_limits) {
	struct two two = two_make(WEIR_POLICY_ROUND_ROBIN, 100);
	uint32_t part;
	uint16_t n = 0;

	for (uint32_t begun = 0; begun < 400; n++) { // flows at four backends
		struct frame_spec spec = packet(n, SYN);
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&spec, &f);
		m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
		part = part_of(&two, m);
		frame_mbuf_free(m);
		if (part % 2 == 1) {
			send(&two, n, SYN, &part);
			send(&two, n, ACK, &part);
			begun++;
		}
	}
	for (uint32_t id = 0; id < 4; id++) {
		assert_false(weir_policy_below_limit(
			&two.pipeline[1]->clients[0], &two.pipeline[1]->policy.backends[id]));
	}
	maintain(&two);
	for (part = 1; part < WEIR_FLOW_PARTS; part += 2) {
		struct sums before = sum(&two);

		move(&two, part, &before);
	}
	send(&two, n, SYN, &part); // worker 0 has no policy client for the service yet
	for (uint32_t id = 0; id < 4; id++) {
		assert_true(weir_policy_below_limit(
			&two.pipeline[1]->clients[0], &two.pipeline[1]->policy.backends[id]));
		assert_false(weir_policy_below_limit(
			&two.pipeline[0]->clients[0], &two.pipeline[0]->policy.backends[id]));
	}
	two_free(&two);
}

// The new owner of a part waits until it has read the row of each backend to which flows of the
// part belong.
TEST(parts_wait_for_the_rows_of_their_backends) {
	struct two two = two_make(WEIR_POLICY_ROUND_ROBIN, 0);
	uint16_t backend;
	uint32_t part, waits = 0;

	backend = send(&two, 1, SYN, &part).backend;
	for (uint32_t p = 0; p < WEIR_FLOW_PARTS; p++) {
		if (p == part && weir_pipeline_owns_part(two.pipeline[0], p)) {
			struct sums before;

			maintain(&two);
			before = sum(&two);
			move(&two, p, &before);
		}
	}
	assert_true(weir_pipeline_owns_part(two.pipeline[1], part));
	// Worker 1 reads all rows, worker 0 does not.
	for (unsigned int i = 0; i < 3 * WEIR_READER_STEPS; i++) {
		assert_true(weir_writer_publish_row(two.lab->writer, 9, &two.lab->rows[i % 2]));
	}
	weir_pipeline_settle(two.pipeline[1]);
	while (!weir_pipeline_release_part(two.pipeline[1], part, two.parcel)) {
	}
	assert_false(weir_reader_has_rows(&two.pipeline[0]->reader, two.parcel->note));
	while (!weir_pipeline_adopt_part(two.pipeline[0], two.parcel, two.lab->now_ns)) {
		waits++;
	}
	assert_true(waits > 1);
	assert_true(weir_reader_has_rows(&two.pipeline[0]->reader, two.parcel->note));
	while (!weir_pipeline_settle_part(two.pipeline[1], two.parcel)) {
	}
	assert_int_equal(send(&two, 1, ACK, &part).backend, backend);
	two_free(&two);
}

// A part is adopted after WEIR_PIPELINE_PART_WAITS calls, even if rows are still missing.
TEST(parts_wait_for_a_bounded_time) {
	struct two two = two_make(WEIR_POLICY_ROUND_ROBIN, 0);
	uint32_t calls = 0;

	while (!weir_pipeline_release_part(two.pipeline[1], 1, two.parcel)) {
	}
	two.parcel->note += 1000000;
	while (!weir_pipeline_adopt_part(two.pipeline[0], two.parcel, two.lab->now_ns)) {
		calls++;
	}
	assert_in_range(calls, WEIR_PIPELINE_PART_WAITS, WEIR_PIPELINE_PART_WAITS + 10);
	assert_true(weir_pipeline_owns_part(two.pipeline[0], 1));
	assert_true(weir_pipeline_settle_part(two.pipeline[1], two.parcel));
	two_free(&two);
}

static uint8_t found_by(struct two *two, uint32_t worker, uint16_t n) {
	struct weir_message message = lab_question(n);

	if (packet(n, SYN).family == 6) {
		memcpy(message.flow.source, frame_client6, 16);
		memcpy(message.flow.destination, frame_vip6, 16);
		message.flow.family = 6;
	}
	weir_flow_query_respond(two->pipeline[worker], &message, two->lab->now_ns);
	return message.flow.found;
}

// A worker must not report a flow of a part that it does not own. The distributor must assign each
// packet to the part in which the flow table keeps the packet's flow.
TEST(parts_of_others_are_not_reported) {
	struct two two = two_make(WEIR_POLICY_ROUND_ROBIN, 0);
	uint32_t part;

	for (uint16_t n = 0; n < 200; n++) {
		bool w;

		send(&two, n, SYN, &part);
		w = weir_pipeline_owns_part(two.pipeline[1], part);
		assert_int_equal(found_by(&two, w, n), 1);
		assert_int_equal(found_by(&two, !w, n), 0);
	}
	two_free(&two);
}

static uint32_t part_of_frame(struct two *two, const struct frame *f) {
	struct rte_mbuf *m = frame_mbuf(f->bytes, f->n, RTE_PKTMBUF_HEADROOM);
	uint32_t part = weir_pipeline_distribute(two->pipeline[0], m);

	frame_mbuf_free(m);
	return part;
}

// Returns the part to which an ICMP error belongs. The error comes from a router, and is about a
// packet from the flow's backend to the client.
static uint32_t part_of_error(struct two *two, const struct frame_spec *flow) {
	struct frame_spec answer = *flow, error = {.family = flow->family};
	struct frame quoted, f;

	answer.source = flow->family == 4 ? frame_vip4 : frame_vip6;
	answer.destination = flow->family == 4 ? frame_client4 : frame_client6;
	answer.source_port = 80;
	answer.destination_port = flow->source_port;
	frame_build(&answer, &quoted);
	error.protocol = flow->family == 4 ? 1 : 58;
	error.icmp_type = flow->family == 4 ? 3 : 2;
	error.body = quoted.bytes + quoted.l3;
	error.payload = (uint16_t)quoted.ip_bytes;
	frame_build(&error, &f);
	return part_of_frame(two, &f);
}

// offset: fragment offset in units of 8 bytes; more: the "more fragments" flag.
static void build_fragment(
	const struct frame_spec *flow, uint16_t n, uint16_t offset, bool more, struct frame *ret) {
	uint8_t header[8] = {17, 0, (uint8_t)(offset >> 5), (uint8_t)(offset << 3 | more), 0, 0,
		(uint8_t)(n >> 8), (uint8_t)n};
	struct frame_spec spec = *flow;

	if (flow->family == 6) {
		spec.options = header;
		spec.option_bytes = sizeof(header);
		spec.first_header = 44;
	}
	frame_build(&spec, ret);
	if (flow->family == 4) {
		frame_put16(ret->bytes + ret->l3 + 4, n);
		frame_put16(ret->bytes + ret->l3 + 6, (uint16_t)((more ? 0x2000 : 0) | offset));
		frame_fix_ipv4(ret);
	}
}

static uint32_t part_of_fragment(
	struct two *two, const struct frame_spec *flow, uint16_t n, uint16_t offset, bool more) {
	struct frame f;

	build_fragment(flow, n, offset, more, &f);
	return part_of_frame(two, &f);
}

// ICMP errors and fragments of a flow go to the worker that owns the flow's part.
TEST(parts_get_errors_and_fragments_of_their_flows) {
	struct two two = two_make(WEIR_POLICY_ROUND_ROBIN, 0);
	uint32_t parts = 0, last = 0, ignored;

	send(&two, 0, SYN, &ignored); // the pipeline loads the VIPs
	send(&two, 1, SYN, &ignored);
	for (uint16_t n = 0; n < 300; n++) {
		struct frame_spec spec = packet(n, ACK);
		struct frame f;
		uint32_t part;

		frame_build(&spec, &f);
		part = part_of_frame(&two, &f);
		assert_int_equal(part_of_error(&two, &spec), part);
		parts += part != last;
		last = part;
		spec.protocol = 17;
		spec.destination_port = 53;
		spec.payload = 24;
		frame_build(&spec, &f);
		part = part_of_frame(&two, &f);
		assert_int_equal(part_of_fragment(&two, &spec, n, 0, true), part);
		assert_int_equal(part_of_fragment(&two, &spec, n, 4, false), part);
	}
	assert_true(parts > 250);
	two_free(&two);
}

static struct frame_spec datagram(uint16_t n) {
	struct frame_spec spec = packet(n, 0);

	spec.protocol = 17;
	spec.destination_port = 53;
	spec.payload = 24;
	return spec;
}

// A client reuses an identification before the first datagram with this identification is complete.
// The ports in a first fragment determine its flow, and the fragment goes to the worker of this
// flow.
TEST(first_fragments_are_distributed_by_their_own_ports) {
	struct two two = two_make(WEIR_POLICY_ROUND_ROBIN, 0);
	uint32_t different = 0, ignored;

	send(&two, 0, SYN, &ignored); // the pipeline loads the VIPs
	send(&two, 1, SYN, &ignored);
	for (uint16_t n = 0; n < 300; n++) {
		// Flows n and n + 3 have the same address family.
		struct frame_spec one = datagram(n), other = datagram((uint16_t)(n + 3));
		struct frame f;
		uint32_t part;

		frame_build(&one, &f);
		part = part_of_frame(&two, &f);
		assert_int_equal(part_of_fragment(&two, &one, n, 0, true), part);
		frame_build(&other, &f);
		different += part_of_frame(&two, &f) != part;
		part = part_of_frame(&two, &f);
		assert_int_equal(part_of_fragment(&two, &other, n, 0, true), part);
	}
	assert_true(different > 250);
	two_free(&two);
}

// A worker drops a first fragment of a part that it does not own, and creates no flow for it.
TEST(first_fragments_of_others_parts_are_dropped) {
	struct two two = two_make(WEIR_POLICY_ROUND_ROBIN, 0);
	uint64_t drops[2] = {0}, before;
	uint32_t ignored;

	send(&two, 0, SYN, &ignored); // the pipeline loads the VIPs
	send(&two, 1, SYN, &ignored);
	before = sum(&two).flows;
	for (uint16_t n = 0; n < 300; n++) {
		struct frame_spec spec = datagram(n);
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;
		bool owner;

		build_fragment(&spec, n, 0, true, &f);
		m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
		owner = weir_pipeline_owns_part(two.pipeline[1], part_of(&two, m));
		weir_pipeline_process(
			two.pipeline[!owner], &m, 1, LAB_IN_PORT, two.lab->now_ns, &verdict);
		frame_mbuf_free(m);
		assert_int_equal(verdict.action, WEIR_ACTION_DROP);
		assert_int_equal(verdict.reason, WEIR_DROP_FRAGMENT_OVERLAP);
		drops[!owner]++;
	}
	maintain(&two);
	assert_int_equal(sum(&two).flows, before);
	for (uint32_t w = 0; w < 2; w++) {
		assert_true(drops[w] > 0);
		assert_int_equal(
			two.lab->segment->worker_counters[w].drops[WEIR_DROP_FRAGMENT_OVERLAP],
			drops[w]);
	}
	two_free(&two);
}

// List the waiting flows of worker w, and count each of them in seen[]. Returns the number of lines
// of the flow table that the worker reads for the list.
static uint32_t list_waiting(struct two *two, unsigned int w, uint8_t seen[FLOWS]) {
	struct weir_message list = {.kind = WEIR_MESSAGE_FLOW_WAITING,
		.waiting = {.last = UINT32_MAX, .idle_ms = 500, .backend = {0, 1, 2, 3}}};
	uint32_t lines = 1, questions = 0;

	for (; list.waiting.first < lines; list.waiting.first = list.waiting.next) {
		weir_flow_query_respond(two->pipeline[w], &list, two->lab->now_ns);
		assert_int_equal(list.waiting.answered, 1);
		assert_true(list.waiting.next > list.waiting.first);
		lines = list.waiting.lines;
		questions++;
		for (uint8_t i = 0; i < list.waiting.count; i++) {
			uint16_t port = list.waiting.family == 6
						? list.waiting.flow6[i].source_port
						: list.waiting.flow4[i].source_port;

			seen[rte_be_to_cpu_16(port) - 1024]++;
		}
	}
	assert_int_equal(list.waiting.next, lines);
	return questions * WEIR_WAITING_LINES >= lines ? lines : questions * WEIR_WAITING_LINES;
}

// A worker's list skips the parts of other workers. The lists of all workers together read each
// line of the table about once.
TEST(a_list_of_all_workers_reads_each_line_once) {
	struct two two = two_make(WEIR_POLICY_ROUND_ROBIN, 0);
	uint32_t lines = (uint32_t)(two.pipeline[0]->flows->family4.bucket_count +
				    two.pipeline[0]->flows->family6.bucket_count);
	uint8_t seen[FLOWS] = {0};
	uint32_t part, looked;

	for (uint16_t n = 0; n < 20; n++) {
		send(&two, n, SYN, &part);
	}
	lab_wait(two.lab, 600);
	looked = list_waiting(&two, 0, seen) + list_waiting(&two, 1, seen);
	assert_in_range(looked, lines, lines + 20 * WEIR_WAITING_LINES / 4);
	for (uint16_t n = 0; n < 20; n++) {
		assert_int_equal(seen[n], 1);
	}
	two_free(&two);
}
