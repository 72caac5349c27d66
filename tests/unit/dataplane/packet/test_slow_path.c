// SPDX-License-Identifier: BSD-3-Clause
//
// Slow path: removed or unreachable backends, invalid rows, packets larger than the MTU, ICMP,
// missing headroom, packets in several mbuf segments.
#include <stdlib.h>
#include <string.h>

#include "distribute.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "slow_path.h"
#include "test.h"

#define SYN 0x02
#define ACK 0x10

static struct weir_verdict send_tcp(struct lab *lab, uint16_t n, uint8_t flags) {
	struct frame_spec spec = lab_tcp(n, flags);

	return lab_send(lab, &spec);
}

static void check_drop(const struct weir_verdict *verdict, enum weir_drop_reason reason) {
	assert_string_equal(weir_action_name((enum weir_action)verdict->action), "drop");
	assert_string_equal(weir_drop_reason_name((enum weir_drop_reason)verdict->reason),
		weir_drop_reason_name(reason));
}

static const struct weir_share_counters *backend_of(const struct lab *lab, uint32_t backend) {
	return weir_segment_backend_counters(lab->segment, lab->params.worker, backend);
}

// --- backends -------------------------------------------------------------------------------

TEST_GROUP(lab_eal);

TEST(slow_path_flow_of_a_removed_backend_moves_once) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);
	uint16_t old = verdict.backend, new;
	uint16_t rest[3];

	for (uint16_t i = 0; i < 3; i++) {
		rest[i] = (uint16_t)((old + 1 + i) % 4);
	}
	send_tcp(lab, 1, ACK);
	lab->rows[old].flags &= (uint8_t)~WEIR_BACKEND_PRESENT;
	lab_publish_backends(lab);
	lab_publish_selection(lab, 0, rest, 3);
	verdict = send_tcp(lab, 1, ACK);
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	assert_int_equal(verdict.choice, WEIR_CHOICE_REPLACED);
	assert_int_not_equal(verdict.backend, old);
	new = verdict.backend;
	assert_int_equal(backend_of(lab, old)->active_flows, 0);
	assert_int_equal(backend_of(lab, new)->active_flows, 1);
	// A moved flow stays at the new backend, even when the old backend is usable again.
	lab->rows[old].flags |= WEIR_BACKEND_PRESENT;
	lab_publish_backends(lab);
	lab_publish_selection(lab, 0, &old, 1);
	verdict = send_tcp(lab, 1, ACK);
	assert_int_equal(verdict.choice, WEIR_CHOICE_FLOW);
	assert_int_equal(verdict.backend, new);
	lab_check_counters(lab);
	lab_free(lab);
}

// The backend of a flow was removed. A burst with several packets of the flow moves it only once.
TEST(slow_path_flow_of_a_burst_is_moved_once) {
	struct lab *lab = lab_make();
	uint16_t old = send_tcp(lab, 1, SYN).backend;
	struct frame_spec spec = lab_tcp(1, ACK);
	struct weir_verdict verdicts[8];
	struct rte_mbuf *pkts[8];
	uint16_t rest[3];
	struct frame f;

	for (uint16_t i = 0; i < 3; i++) {
		rest[i] = (uint16_t)((old + 1 + i) % 4);
	}
	send_tcp(lab, 1, ACK);
	lab->rows[old].flags &= (uint8_t)~WEIR_BACKEND_PRESENT;
	lab_publish_backends(lab);
	lab_publish_selection(lab, 0, rest, 3);
	frame_build(&spec, &f);
	for (unsigned int i = 0; i < 8; i++) {
		pkts[i] = frame_mbuf(f.bytes, f.n, 128);
	}
	weir_pipeline_process(lab->pipeline, pkts, 8, LAB_IN_PORT, lab->now_ns, verdicts);
	weir_pipeline_maintain(lab->pipeline, lab->now_ns);
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(verdicts[i].action, WEIR_ACTION_FORWARD);
		assert_int_equal(verdicts[i].choice, WEIR_CHOICE_REPLACED);
		assert_int_equal(verdicts[i].backend, verdicts[0].backend);
		frame_mbuf_free(pkts[i]);
	}
	assert_int_equal(lab_counters(lab)->flow_new, 2);
	assert_int_equal(backend_of(lab, verdicts[0].backend)->new_flows, 1);
	assert_int_equal(backend_of(lab, verdicts[0].backend)->active_flows, 1);
	assert_int_equal(backend_of(lab, old)->active_flows, 0);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(slow_path_no_backend_left_is_dropped_with_a_reason) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);

	for (unsigned int i = 0; i < 4; i++) {
		lab->rows[i].flags = 0;
	}
	lab_publish_backends(lab); // no rows, but the selection still contains the backends
	verdict = send_tcp(lab, 1, ACK);
	check_drop(&verdict, WEIR_DROP_BACKEND_GONE);
	assert_int_equal(verdict.service, 0);
	verdict = send_tcp(lab, 2, SYN);
	check_drop(&verdict, WEIR_DROP_BACKEND_GONE);
	lab_publish_selection(lab, 0, NULL, 0);
	verdict = send_tcp(lab, 1, ACK);
	check_drop(&verdict, WEIR_DROP_NO_BACKEND);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(slow_path_flow_of_a_removed_service_goes_to_the_kernel) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);

	assert_int_equal(weir_writer_publish(
				 lab->writer, (struct weir_root){.kind = WEIR_BLOB_SERVICES}, NULL),
		0);
	verdict = send_tcp(lab, 1, ACK); // the flow's backend still exists: the flow continues
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	memset(lab->rows, 0, sizeof(lab->rows));
	lab_publish_backends(lab);
	verdict = send_tcp(lab, 1, ACK);
	assert_int_equal(verdict.action, WEIR_ACTION_KERNEL);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(slow_path_survives_withdrawn_rows) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);
	struct weir_backend_row rows[LAB_BACKENDS];

	memcpy(rows, lab->rows, sizeof(rows));
	memset(lab->rows, 0, sizeof(lab->rows));
	lab_publish_backends(lab);
	verdict = send_tcp(lab, 1, ACK);
	check_drop(&verdict, WEIR_DROP_BACKEND_GONE);
	memcpy(lab->rows, rows, sizeof(rows));
	lab_publish_backends(lab);
	verdict = send_tcp(lab, 1, ACK);
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(slow_path_unresolved_next_hop_drops_as_no_neighbour) {
	struct lab *lab = lab_make();
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);
	uint16_t backend = verdict.backend;

	lab->rows[backend].flags &= (uint8_t)~WEIR_BACKEND_RESOLVED;
	lab_publish_backends(lab);
	verdict = send_tcp(lab, 1, ACK);
	check_drop(&verdict, WEIR_DROP_NO_NEIGHBOUR);
	assert_int_equal(verdict.backend, backend);
	assert_int_equal(verdict.service, 0);
	assert_int_equal(backend_of(lab, backend)->dropped, 1);
	lab->rows[backend].flags |= WEIR_BACKEND_RESOLVED;
	lab_publish_backends(lab);
	verdict = send_tcp(lab, 1, ACK); // the flow did not move
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	assert_int_equal(verdict.choice, WEIR_CHOICE_FLOW);
	assert_int_equal(verdict.backend, backend);
	lab_check_counters(lab);
	lab_free(lab);
}

// A malicious control process can misdirect packets, but cannot crash a worker. The test sets each
// of the first bytes of a row to each value, and ASan detects accesses beyond the packet's buffer.
// An invalid row is counted and not used: the previous row stays in use.
TEST(slow_path_invalid_rows_do_no_harm) {
	struct lab *lab = lab_make();
	const struct weir_refusals *refusals = &lab->segment->refusals[lab->params.worker];
	unsigned int dropped = 0, forwarded = 0;
	struct weir_backend_row good[2];

	memcpy(good, lab->rows, sizeof(good));
	for (unsigned int i = 0; i < 2 * 16 * 256; i++) {
		uint16_t id = (uint16_t)(i / 4096);
		struct frame_spec spec = lab_tcp(1, ACK);
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;

		memcpy(lab->rows, good, sizeof(good));
		((uint8_t *)&lab->rows[id])[i / 256 % 16] = (uint8_t)i;
		lab_publish_backends(lab);
		lab_publish_selection(lab, 0, &id, 1);
		spec.source_port = (uint16_t)(1024 + i);
		frame_build(&spec, &f);
		m = frame_mbuf(f.bytes, f.n, 48);
		verdict = lab_process(lab, m);
		forwarded += verdict.action == WEIR_ACTION_FORWARD;
		dropped += verdict.action == WEIR_ACTION_DROP;
		assert_true(verdict.action != WEIR_ACTION_FORWARD || verdict.port < LAB_PORTS);
		frame_mbuf_free(m);
		weir_pipeline_quiescent(lab->pipeline);
		weir_writer_reclaim(lab->writer);
	}
	assert_true(forwarded > 500);
	assert_true(dropped > 50);
	assert_true(refusals->rows > 500);
	assert_int_equal(refusals->refused, 0);
	lab_free(lab);
}

// --- size -----------------------------------------------------------------------------------

TEST(slow_path_packet_that_does_not_fit_is_answered) {
	for (unsigned int i = 0; i < 4; i++) {
		uint8_t inner = i % 2 == 0 ? 4 : 6;
		uint16_t only = (uint16_t)(i / 2); // backend 0 is IPv4, 1 is IPv6
		uint16_t room = (uint16_t)(LAB_MTU - (only == 0 ? 20 : 40));
		uint16_t payload = (uint16_t)(room - (inner == 4 ? 20 : 40) - 20);
		struct frame_spec spec = {
			.family = inner, .protocol = 6, .tcp_flags = ACK, .payload = payload};
		struct lab *lab = lab_make();
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;
		uint8_t *ip;

		lab_publish_selection(lab, 0, &only, 1);
		verdict = lab_send(lab, &spec); // the packet fits exactly
		assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
		spec.payload++;
		frame_build(&spec, &f);
		m = frame_mbuf(f.bytes, f.n, 128);
		verdict = lab_process(lab, m);
		assert_int_equal(verdict.action, WEIR_ACTION_REPLY);
		assert_int_equal(verdict.reason, WEIR_DROP_MTU_EXCEEDED);
		assert_int_equal(verdict.port, LAB_IN_PORT);
		assert_int_equal(verdict.backend, only);
		ip = rte_pktmbuf_mtod_offset(m, uint8_t *, f.l3);
		if (inner == 4) {
			assert_int_equal(frame_get16(ip + 20), 0x0304);
			assert_int_equal(frame_get16(ip + 26), room);
		} else {
			assert_int_equal(frame_get16(ip + 40), 0x0200);
			assert_int_equal(frame_get32(ip + 44), room);
		}
		frame_mbuf_free(m);
		assert_int_equal(lab_counters(lab)->drops[WEIR_DROP_MTU_EXCEEDED], 1);
		assert_int_equal(lab_counters(lab)->replied, 0);
		assert_int_equal(backend_of(lab, only)->dropped, 1);
		lab_check_counters(lab);
		lab_free(lab);
	}
}

// A forged "fragmentation needed" reports a small path MTU of an IPv4 tunnel. An IPv6 packet of at
// most 1,280 bytes is never too big, because 1,280 is the minimum MTU of IPv6. The packet is sent
// in one unfragmented IPv4 packet without DF. If the path MTU is really small, routers can fragment
// this IPv4 packet.
TEST(slow_path_ipv6_that_fits_the_port_is_left_to_routers) {
	struct frame_spec spec = {
		.family = 6, .protocol = 6, .tcp_flags = ACK, .payload = 1280 - 60};
	struct lab *lab = lab_make();
	struct weir_verdict verdict;
	struct rte_mbuf *m;
	struct frame f;
	uint8_t *ip;

	lab->rows[0].mtu = 576;
	lab_publish_backends(lab);
	lab_publish_selection(lab, 0, (uint16_t[]){0}, 1);
	frame_build(&spec, &f);
	m = frame_mbuf(f.bytes, f.n, 128);
	verdict = lab_process(lab, m);
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	ip = rte_pktmbuf_mtod_offset(m, uint8_t *, lab->rows[0].l2_bytes);
	assert_int_equal(m->pkt_len, lab->rows[0].header_bytes + 1280);
	assert_int_equal(frame_get16(ip + 2), 20 + 1280);
	assert_true(frame_get16(ip + 4) != 0); // an identification, in case of fragmentation
	assert_int_equal(frame_get16(ip + 6), 0); // DF is not set
	assert_int_equal(weir_checksum_ipv4(ip), 0xffff);
	assert_memory_equal(ip + 20, f.bytes + f.l3, 1280);
	frame_mbuf_free(m);
	assert_int_equal(lab_counters(lab)->forwarded, 1);
	assert_int_equal(lab_counters(lab)->fragmented, 0);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(slow_path_error_that_does_not_fit_is_not_answered) {
	struct frame_spec quoted = {.family = 4,
		.protocol = 6,
		.source = frame_vip4,
		.destination = frame_client4,
		.source_port = 80,
		.destination_port = 1025,
		.payload = 1460};
	struct frame_spec spec = {.family = 4, .protocol = 1, .icmp_type = 3, .icmp_code = 4};
	struct lab *lab = lab_make();
	struct weir_verdict verdict;
	struct frame f;

	frame_build(&quoted, &f);
	spec.body = f.bytes + f.l3;
	spec.payload = 1460;
	verdict = lab_send(lab, &spec);
	check_drop(&verdict, WEIR_DROP_MTU_EXCEEDED);
	lab_check_counters(lab);
	lab_free(lab);
}

// A flood of pings must not stop path MTU discovery, and a flood of packets that are too big must
// not stop echo replies.
TEST(slow_path_echo_and_too_big_have_separate_limits) {
	struct weir_pipeline_params params = lab_params();
	struct frame_spec echo = {.family = 6, .protocol = 58, .icmp_type = 128};
	struct frame_spec big = lab_tcp(1, ACK);
	struct weir_verdict verdict;
	struct lab *lab;

	params.icmp.echo = 10;
	params.icmp.too_big = 10;
	lab = lab_open(&params);
	lab_publish_default(lab);
	big.payload = 1500;
	for (unsigned int i = 0; i < 10; i++) {
		verdict = lab_send(lab, &echo);
		assert_int_equal(verdict.action, WEIR_ACTION_REPLY);
	}
	verdict = lab_send(lab, &echo);
	check_drop(&verdict, WEIR_DROP_ICMP_RATE);
	for (unsigned int i = 0; i < 10; i++) {
		verdict = lab_send(lab, &big);
		assert_int_equal(verdict.action, WEIR_ACTION_REPLY);
	}
	verdict = lab_send(lab, &big);
	check_drop(&verdict, WEIR_DROP_ICMP_RATE);
	lab->now_ns += 100000000;
	verdict = lab_send(lab, &echo);
	assert_int_equal(verdict.action, WEIR_ACTION_REPLY);
	verdict = lab_send(lab, &echo);
	check_drop(&verdict, WEIR_DROP_ICMP_RATE);
	assert_int_equal(lab_counters(lab)->drops[WEIR_DROP_ICMP_RATE], 3);
	assert_int_equal(lab_counters(lab)->replied, 11);
	lab_check_counters(lab);
	lab_free(lab);
}

// Packets to or from a group MAC address get no reply (RFC 1122, 3.2.2).
TEST(slow_path_multicast_frames_get_no_reply) {
	const struct frame_spec specs[] = {
		{.family = 4, .protocol = 1, .icmp_type = 8, .tags = 1},
		{.family = 6, .protocol = 58, .icmp_type = 128},
		{.family = 4, .protocol = 6, .tcp_flags = ACK, .payload = 1500},
		{.family = 6, .protocol = 17, .destination_port = 53, .payload = 1500},
	};
	struct lab *lab = lab_make();

	for (unsigned int i = 0; i < 3 * RTE_DIM(specs); i++) {
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&specs[i / 3], &f);
		if (i % 3 < 2) {
			memset(f.bytes + i % 3 * 6, i % 2 == 0 ? 0xff : 0x01, 6);
		}
		m = frame_mbuf(f.bytes, f.n, RTE_PKTMBUF_HEADROOM);
		verdict = lab_process(lab, m);
		if (i % 3 < 2) {
			check_drop(
				&verdict, i % 3 == 0 ? WEIR_DROP_OTHER_MAC : WEIR_DROP_GROUP_MAC);
		} else { // the same packet with unicast MAC addresses
			assert_int_equal(verdict.action, WEIR_ACTION_REPLY);
		}
		frame_mbuf_free(m);
	}
	assert_int_equal(lab_counters(lab)->drops[WEIR_DROP_GROUP_MAC], 4);
	assert_int_equal(lab_counters(lab)->drops[WEIR_DROP_OTHER_MAC], 4);
	lab_check_counters(lab);
	lab_free(lab);
}

TEST(slow_path_missing_headroom_is_dropped) {
	struct frame_spec big = lab_tcp(1, ACK);
	struct lab *lab = lab_make();

	big.payload = 1500;
	for (unsigned int i = 0; i < 2; i++) {
		struct frame_spec spec = i == 0 ? lab_tcp(1, ACK) : big;
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&spec, &f);
		for (uint16_t headroom = 0; headroom < 20; headroom++) {
			m = frame_mbuf(f.bytes, f.n, headroom);
			verdict = lab_process(lab, m);
			check_drop(&verdict, WEIR_DROP_HEADROOM);
			assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
			frame_mbuf_free(m);
		}
	}
	lab_check_counters(lab);
	lab_free(lab);
}

// --- ICMP errors ----------------------------------------------------------------------------

// "Fragmentation needed" must reach the backend of the flow, even if a new flow would get another
// backend.
TEST(slow_path_error_follows_its_flow) {
	struct frame_spec spec = {.family = 4, .protocol = 1, .icmp_type = 3, .icmp_code = 4};
	struct frame_spec quoted = {.family = 4,
		.protocol = 6,
		.source = frame_vip4,
		.destination = frame_client4,
		.source_port = 80,
		.destination_port = 1025,
		.payload = 8};
	struct lab *lab = lab_make();
	struct weir_verdict verdict = send_tcp(lab, 1, SYN);
	uint16_t backend = verdict.backend;
	uint16_t other = (uint16_t)((backend + 1) % 4);
	struct rte_mbuf *m;
	struct frame inner, f;

	lab_publish_selection(lab, 0, &other, 1);
	frame_build(&quoted, &inner);
	spec.body = inner.bytes + inner.l3;
	spec.payload = 28;
	spec.source = frame_stranger4; // a router on the path sends the error
	frame_build(&spec, &f);
	m = frame_mbuf(f.bytes, f.n, 128);
	verdict = lab_process(lab, m);
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	assert_int_equal(verdict.choice, WEIR_CHOICE_FLOW);
	assert_int_equal(verdict.backend, backend);
	assert_memory_equal(rte_pktmbuf_mtod_offset(m, uint8_t *, lab->rows[backend].header_bytes),
		f.bytes + f.l3, f.ip_bytes);
	frame_mbuf_free(m);
	quoted.destination_port = 1026; // a flow that is not in the table
	frame_build(&quoted, &inner);
	verdict = lab_send(lab, &spec);
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	assert_int_equal(verdict.choice, WEIR_CHOICE_UNTRACKED);
	assert_int_equal(verdict.backend, other);
	assert_int_equal(lab_counters(lab)->flows, 1);
	// If the flow's backend was removed, the error goes to the backend that will get the
	// flow's next packet.
	quoted.destination_port = 1025;
	frame_build(&quoted, &inner);
	lab->rows[backend].flags = 0;
	lab_publish_backends(lab);
	verdict = lab_send(lab, &spec);
	assert_int_equal(verdict.choice, WEIR_CHOICE_REPLACED);
	assert_int_equal(verdict.backend, other);
	assert_int_equal(backend_of(lab, backend)->active_flows, 1); // no flow was moved
	lab_publish_selection(lab, 0, NULL, 0);
	verdict = lab_send(lab, &spec);
	check_drop(&verdict, WEIR_DROP_NO_BACKEND);
	lab_check_counters(lab);
	lab_free(lab);
}

// --- segments -------------------------------------------------------------------------------

static struct rte_mbuf *segments_of(
	struct rte_mempool *pool, const struct frame *f, uint32_t first, uint32_t piece) {
	struct rte_mbuf *m = NULL;

	for (uint32_t at = 0; at < f->n;) {
		uint32_t n = RTE_MIN(at == 0 ? first : piece, f->n - at);
		struct rte_mbuf *segment = rte_pktmbuf_alloc(pool);

		assert_non_null(segment);
		memcpy(rte_pktmbuf_append(segment, (uint16_t)n), f->bytes + at, n);
		if (m == NULL) {
			m = segment;
		} else {
			assert_int_equal(rte_pktmbuf_chain(m, segment), 0);
		}
		at += n;
	}
	return m;
}

// However a packet is split into mbuf segments, the same worker gets it and sends the same bytes.
TEST(slow_path_segments_give_the_same_result_as_one) {
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("slow_path", 511, 0, 0, 2176, SOCKET_ID_ANY);
	static const uint8_t nops[8] = {1, 1, 1, 1, 1, 1, 1, 0};
	const struct frame_spec specs[] = {
		{.family = 4, .protocol = 6, .tcp_flags = ACK, .payload = 700, .padding = 30},
		{.family = 4, .protocol = 6, .tcp_flags = ACK, .options = nops, .option_bytes = 8},
		{.family = 6, .protocol = 17, .destination_port = 53, .payload = 333, .tags = 2},
		{.family = 4, .protocol = 1, .icmp_type = 8, .payload = 401, .padding = 9},
		{.family = 6, .protocol = 58, .icmp_type = 128, .payload = 400},
		{.family = 4, .protocol = 6, .tcp_flags = ACK, .payload = 1600, .source_port = 9},
		{.family = 6, .protocol = 6, .tcp_flags = ACK, .payload = 1600, .source_port = 9},
	};
	struct lab *lab = lab_make();

	assert_non_null(pool);
	for (unsigned int i = 0; i < RTE_DIM(specs) * 400; i++) {
		const struct frame_spec *spec = &specs[i % RTE_DIM(specs)];
		struct weir_verdict whole, pieces;
		struct rte_mbuf *m, *expected;
		uint8_t copy[4096];
		uint64_t hash;
		const uint8_t *p;
		struct frame f;

		frame_build(spec, &f);
		expected = frame_mbuf(f.bytes, f.n, 128);
		lab->now_ns += 1000000;
		lab_process(lab, expected); // creates the packet's flow
		frame_mbuf_free(expected);
		expected = frame_mbuf(f.bytes, f.n, 128);
		hash = weir_pipeline_distribution_hash(expected, LAB_SEED);
		whole = lab_process(lab, expected);
		m = segments_of(pool, &f, 1 + i / 7 % 300, 5 + i % 211);
		assert_true(weir_pipeline_distribution_hash(m, LAB_SEED) == hash);
		pieces = lab_process(lab, m);
		assert_memory_equal(&pieces, &whole, sizeof(whole));
		assert_int_equal(rte_mbuf_check(m, 1, &(const char *){NULL}), 0);
		p = rte_pktmbuf_read(m, 0, m->pkt_len, copy);
		assert_non_null(p);
		// A "too big" reply quotes only the first segment.
		if (whole.reason != WEIR_DROP_MTU_EXCEEDED) {
			assert_int_equal(m->pkt_len, expected->pkt_len);
			assert_memory_equal(p, rte_pktmbuf_mtod(expected, uint8_t *), m->pkt_len);
		}
		rte_pktmbuf_free(m);
		frame_mbuf_free(expected);
		assert_int_equal(rte_mempool_avail_count(pool), 511); // no buffer was leaked
	}
	lab_check_counters(lab);
	lab_free(lab);
	rte_mempool_free(pool);
}
