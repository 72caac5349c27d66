// SPDX-License-Identifier: BSD-3-Clause
//
// A service without UDP flows (WEIR_UDP_DATAGRAM): a backend is chosen for each datagram.
#include <string.h>

#include "flow_query.h"
#include "frames.h"
#include "source_lab.h"
#include "test.h"

#define SENT 200

static struct weir_selection_params by_datagram(enum weir_policy policy) {
	struct weir_selection_params params = weir_selection_defaults(1, policy, LAB_SLOTS);

	params.settings.rounds |= WEIR_UDP_DATAGRAM;
	return params;
}

static void publish(struct lab *lab, const struct weir_selection_params *params) {
	lab_publish_policy(lab, params, (uint16_t[]){4, 5}, 2);
	weir_pipeline_settle(lab->pipeline);
}

static struct lab *make_lab(const struct weir_selection_params *params) {
	struct lab *lab = lab_make();

	publish(lab, params);
	return lab;
}

static struct weir_verdict query(struct lab *lab, uint8_t family, uint16_t port) {
	const struct frame_spec spec = {.family = family,
		.protocol = 17,
		.source_port = port,
		.destination_port = 53,
		.payload = 20};

	return lab_send(lab, &spec);
}

// Sends datagrams of one socket. Returns how many of them went to backend 4; the others went to
// backend 5.
static uint32_t send_many(struct lab *lab, uint8_t family, uint16_t port) {
	uint32_t first = 0;

	for (uint32_t i = 0; i < SENT; i++) {
		const struct weir_verdict verdict = query(lab, family, port);

		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdict.choice, WEIR_CHOICE_DATAGRAM);
		assert_int_equal(verdict.service, 1);
		assert_in_range(verdict.backend, 4, 5);
		first += verdict.backend == 4;
	}
	return first;
}

TEST_GROUP(lab_eal);

TEST(datagrams_of_a_socket_are_spread_by_every_policy) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		const struct weir_selection_params params = by_datagram((enum weir_policy)policy);
		struct lab *lab = make_lab(&params);
		const uint32_t first = send_many(lab, policy % 2 == 0 ? 4 : 6, 5000);

		switch (policy) {
		case WEIR_POLICY_MAGLEV:
			assert_true(first == 0 || first == SENT);
			break;
		case WEIR_POLICY_RANDOM:
		case WEIR_POLICY_POWER_OF_TWO:
		case WEIR_POLICY_PREQUAL:
			assert_in_range(first, SENT / 4, SENT * 3 / 4);
			break;
		default:
			assert_in_range(first, SENT / 2 - 1, SENT / 2 + 1);
		}
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// In the counters of service and backends, a datagram is a flow that has ended.
TEST(datagrams_are_counted_without_flows) {
	const struct weir_selection_params params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = make_lab(&params);

	send_many(lab, 4, 5000);
	assert_int_equal(lab_counters(lab)->datagrams, SENT);
	assert_int_equal(lab_counters(lab)->flow_new, 0);
	assert_int_equal(lab_counters(lab)->flow_hits, 0);
	assert_int_equal(lab_counters(lab)->flow_untracked, 0);
	assert_int_equal(lab_counters(lab)->flows, 0);
	assert_int_equal(service_of(lab, 1)->new_flows, SENT);
	assert_int_equal(service_of(lab, 1)->active_flows, 0);
	assert_int_equal(service_of(lab, 1)->open_flows, 0);
	for (uint32_t id = 4; id < 6; id++) {
		assert_int_equal(backend_of(lab, id)->new_flows, SENT / 2);
		assert_int_equal(backend_of(lab, id)->packets, SENT / 2);
		assert_int_equal(backend_of(lab, id)->open_flows, 0);
	}
	lab_check_counters(lab);
	lab_free(lab);
}

// A full flow table changes nothing: a datagram needs no entry.
TEST(datagrams_are_spread_while_the_table_is_crowded) {
	const struct weir_selection_params params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
	struct weir_pipeline_params pipeline = lab_params();
	struct lab *lab;

	pipeline.flow_table.flows = 1024;
	pipeline.flow_table.half_open_percent = 25;
	lab = lab_open(&pipeline);
	lab_publish_default(lab);
	publish(lab, &params);
	for (uint16_t n = 0; n < 1000; n++) {
		send_tcp(lab, n, SYN);
	}
	assert_true(lab_counters(lab)->flow_half_open_evicted > 0 ||
		    lab_counters(lab)->flow_untracked > 0);
	assert_int_equal(send_many(lab, 4, 5000), SENT / 2);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(udp_flows_end_when_the_service_loses_them) {
	for (uint8_t family = 4; family <= 6; family += 2) {
		for (uint64_t wait_ms = 0; wait_ms <= 4000; wait_ms += 500) {
			struct weir_selection_params params =
				weir_selection_defaults(1, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
			struct lab *lab = make_lab(&params);
			uint16_t backend;

			query(lab, family, 5000);
			assert_int_equal(query(lab, family, 5000).choice, WEIR_CHOICE_FLOW);
			assert_int_equal(query(lab, family, 5001).choice, WEIR_CHOICE_NEW);
			params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
			publish(lab, &params);
			lab_wait(lab, wait_ms);
			assert_in_range(send_many(lab, family, 5000), SENT / 2 - 1, SENT / 2 + 1);
			assert_int_equal(query(lab, family, 5001).choice, WEIR_CHOICE_DATAGRAM);
			assert_int_equal(service_of(lab, 1)->active_flows, 0);
			assert_int_equal(service_of(lab, 1)->open_flows, 0);
			params = weir_selection_defaults(1, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
			publish(lab, &params);
			backend = query(lab, family, 5000).backend;
			for (unsigned int i = 0; i < 10; i++) {
				const struct weir_verdict verdict = query(lab, family, 5000);

				assert_int_equal(verdict.choice, WEIR_CHOICE_FLOW);
				assert_int_equal(verdict.backend, backend);
			}
			lab_check_counters(lab);
			lab_free(lab);
		}
	}
}

// The sweep ends flows of which no datagram arrives. UDP flows of other services continue.
TEST(idle_udp_flows_end_when_the_service_loses_them) {
	struct weir_selection_params params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = lab_make();

	query(lab, 4, 5000);
	query(lab, 4, 5000);
	query(lab, 6, 5001);
	assert_int_equal(service_of(lab, 1)->active_flows, 2);
	params.service = 2; // has no binds
	publish(lab, &params);
	lab_wait(lab, 2000);
	assert_int_equal(service_of(lab, 1)->active_flows, 2);
	params.service = 1;
	publish(lab, &params);
	lab_wait(lab, 2000);
	assert_int_equal(service_of(lab, 1)->active_flows, 0);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(tcp_flows_of_the_service_are_kept) {
	struct weir_selection_params params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = lab_make();
	uint16_t backend;

	params.service = 0;
	backend = send_tcp(lab, 1, SYN).backend;
	send_tcp(lab, 1, ACK);
	lab_publish_policy(lab, &params, (uint16_t[]){0, 1, 2, 3}, 4);
	weir_pipeline_settle(lab->pipeline);
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(send_tcp(lab, 1, ACK).backend, backend);
		assert_int_equal(send_tcp(lab, (uint16_t)(2 + i), SYN).choice, WEIR_CHOICE_NEW);
		lab_wait(lab, 300);
	}
	assert_int_equal(service_of(lab, 0)->active_flows, 9);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(closed_backend_gets_no_datagrams) {
	const struct weir_selection_params params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = make_lab(&params);

	lab->rows[4].flags |= WEIR_BACKEND_CLOSED;
	lab_publish_backends(lab);
	assert_int_equal(send_many(lab, 4, 5000), 0);
	lab->rows[4].flags &= (uint8_t)~WEIR_BACKEND_CLOSED;
	lab_publish_backends(lab);
	assert_int_equal(send_many(lab, 4, 5000), SENT / 2);
	lab_publish_policy(lab, &params, NULL, 0);
	assert_int_equal(query(lab, 4, 5000).reason, WEIR_DROP_NO_BACKEND);
	lab_check_counters(lab);
	lab_free(lab);
}

// A datagram takes no place in max_active_flows, but TCP flows may have taken all.
TEST(datagrams_respect_the_limit_of_active_flows) {
	struct weir_selection_params params =
		weir_selection_defaults(1, WEIR_POLICY_ROUND_ROBIN, LAB_SLOTS);
	struct lab *lab;

	params.settings.max_active_flows = 1;
	params.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	params.settings.rounds |= WEIR_UDP_DATAGRAM;
	lab = make_lab(&params);
	assert_int_equal(send_many(lab, 4, 5000), SENT / 2);
	assert_int_equal(service_of(lab, 1)->rejected, 0);
	lab_check_counters(lab);
	lab_free(lab);
}

// With affinity, the datagrams of a source go to one backend, of an entry of the affinity table.
TEST(affinity_keeps_the_datagrams_of_a_source) {
	struct weir_selection_params params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
	struct weir_selection_params other = params_of(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&other);
	uint32_t seen = 0;

	params.settings.hash4 = 32 | WEIR_HASH_AFFINITY;
	params.settings.hash6 = 128;
	params.affinity_ms = TIMEOUT_MS;
	publish(lab, &params);
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		const uint8_t source[4] = {192, 0, 2, n};
		const uint16_t backend = datagram(lab, source, 1000);

		for (uint16_t port = 1000; port < 1010; port++) {
			assert_int_equal(datagram(lab, source, port), backend);
		}
		seen |= 1u << backend;
	}
	assert_int_equal(seen, 3u << 4);
	assert_int_equal(lab_counters(lab)->affinity_known, CLIENTS * 10);
	assert_int_equal(lab_counters(lab)->flows, 0);
	close_lab(lab);
}

TEST(lookup_finds_no_flow_of_datagrams) {
	const struct weir_selection_params params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = make_lab(&params);
	struct weir_message message = lab_question(1);

	message.flow.protocol = 17;
	message.flow.destination_port = 53;
	query(lab, 4, 1025);
	weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
	assert_int_equal(message.flow.found, 0);
	assert_int_equal(message.flow.service, 1);
	lab_free(lab);
}

// Sends a fragment of an IPv4 datagram. at: flags and fragment offset.
static struct weir_verdict send_fragment(struct lab *lab, uint16_t at, uint16_t id) {
	const struct frame_spec spec = {.family = 4,
		.protocol = 17,
		.destination_port = 53,
		.payload = at == 0x2000 ? 24 : 32};
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct frame f;

	frame_build(&spec, &f);
	if ((at & 0x1fff) == 0) {
		frame_put16(f.bytes + f.l4 + 4, 200); // length of the whole datagram
	}
	frame_put16(f.bytes + f.l3 + 4, id);
	frame_put16(f.bytes + f.l3 + 6, at);
	frame_fix_ipv4(&f);
	m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
	verdict = lab_process(lab, m);
	frame_mbuf_free(m);
	return verdict;
}

TEST(fragments_follow_the_first_fragment_of_their_datagram) {
	const struct weir_selection_params params = by_datagram(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = make_lab(&params);
	uint16_t first[2];

	for (uint16_t id = 1; id < 40; id += 2) {
		for (uint16_t k = 0; k < 2; k++) {
			const struct weir_verdict verdict =
				send_fragment(lab, 0x2000, (uint16_t)(id + k));

			assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
			assert_int_equal(verdict.choice, WEIR_CHOICE_DATAGRAM);
			first[k] = verdict.backend;
		}
		assert_int_not_equal(first[0], first[1]);
		for (uint16_t k = 0; k < 2; k++) {
			const struct weir_verdict verdict =
				send_fragment(lab, 4, (uint16_t)(id + k));

			assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
			assert_int_equal(verdict.choice, WEIR_CHOICE_DATAGRAM);
			assert_int_equal(verdict.backend, first[k]);
		}
	}
	assert_int_equal(lab_counters(lab)->datagrams, 40);
	assert_int_equal(lab_counters(lab)->flow_hits, 0);
	lab_check_counters(lab);
	lab_free(lab);
}
