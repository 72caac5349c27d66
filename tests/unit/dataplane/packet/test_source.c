// SPDX-License-Identifier: BSD-3-Clause
//
// Affinity and hash fields: which backend the flows of a client get, on a real segment.
#include "flow_query.h"
#include "source_lab.h"

TEST_GROUP(lab_eal);

// --- hash fields, without an affinity table
// --------------------------------------------------------------

TEST(source_hash_ignores_ports) {
	struct weir_selection_params params = params_of(WEIR_POLICY_MAGLEV);
	uint32_t seen = 0;
	struct lab *lab;

	params.settings.hash4 = 32;
	params.settings.hash6 = 128;
	lab = open_lab(&params);
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		const uint16_t backend = client(lab, n, 1000, SYN);

		seen |= 1u << backend;
		for (uint16_t port = 1001; port < 1020; port++) {
			assert_int_equal(client(lab, n, port, SYN), backend);
		}
	}
	assert_int_equal(seen, 0xf);
	close_lab(lab);
}

TEST(source_hash_counts_a_prefix_as_one_client) {
	struct weir_selection_params params = params_of(WEIR_POLICY_MAGLEV);
	uint8_t ipv6[16] = {0x20, 0x01, 0x0d, 0xb8};
	uint32_t seen4 = 0, seen6 = 0;
	struct lab *lab;

	params.settings.hash4 = 20;
	params.settings.hash6 = 60;
	lab = open_lab(&params);
	for (unsigned int n = 0; n < 256; n++) {
		const uint8_t ipv4[4] = {10, 1, (uint8_t)(0x10 | n % 16), (uint8_t)n};
		const uint8_t other4[4] = {10, 1, (uint8_t)(n & 0xf0), 9};

		assert_int_equal(send_from(lab, ipv4, 4, 1000, SYN),
			send_from(lab, (uint8_t[4]){10, 1, 0x10, 0}, 4, 1001, SYN));
		seen4 |= 1u << send_from(lab, other4, 4, 1002, SYN);
		ipv6[7] = 0x10;
		ipv6[15] = (uint8_t)n;
		assert_int_equal(send_from(lab, ipv6, 6, (uint16_t)(2000 + n), SYN),
			send_from(lab, ipv6, 6, (uint16_t)(3000 + n), SYN));
		ipv6[7] = (uint8_t)n;
		seen6 |= 1u << send_from(lab, ipv6, 6, 4000, SYN);
	}
	assert_int_equal(seen4, 0xf);
	assert_int_equal(seen6, 0xf);
	close_lab(lab);
}

// --- affinity table
// -----------------------------------------------------------------------------------

TEST(affinity_keeps_clients_at_their_backend) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_selection_params params = affine((enum weir_policy)policy);
		struct lab *lab = open_lab(&params);
		uint16_t first[CLIENTS + 1];
		uint32_t seen = 0;

		for (uint8_t n = 1; n <= CLIENTS; n++) {
			first[n] = client(lab, n, 1000, SYN);
			seen |= 1u << first[n];
		}
		for (uint16_t port = 1001; port < 1010; port++) {
			for (uint8_t n = 1; n <= CLIENTS; n++) {
				assert_int_equal(client(lab, n, port, SYN), first[n]);
				assert_int_equal(client(lab, n, port, ACK), first[n]);
			}
		}
		assert_int_equal(seen, 0xf);
		assert_int_equal(lab_counters(lab)->affinity_known, 9 * CLIENTS);
		assert_int_equal(lab_counters(lab)->affinity_full, 0);
		close_lab(lab);
	}
}

TEST(affinity_is_exact_round_robin_over_clients) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);

	for (uint8_t n = 1; n <= CLIENTS; n++) {
		for (uint16_t port = 1000; port < 1003; port++) {
			client(lab, n, port, SYN);
		}
	}
	for (uint32_t id = 0; id < 4; id++) {
		assert_int_equal(backend_of(lab, id)->new_flows, CLIENTS / 4 * 3);
	}
	close_lab(lab);
}

// If its backend is drained or dead, a client gets another backend, and keeps it when the first
// backend returns.
TEST(affinity_leaves_a_closed_backend) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const uint16_t first = client(lab, 1, 1000, SYN);
	uint16_t second;

	client(lab, 1, 1000, ACK);
	close_backend(lab, first, true);
	second = client(lab, 1, 1001, SYN);
	assert_int_not_equal(second, first);
	assert_int_equal(
		client(lab, 1, 1000, ACK), first); // an open connection stays at its backend
	assert_int_equal(client(lab, 1, 1000, FIN_ACK),
		first); // the end of this connection does not change the backend of the client
	close_backend(lab, first, false);
	for (uint16_t port = 1002; port < 1010; port++) {
		assert_int_equal(client(lab, 1, port, SYN), second);
	}
	close_lab(lab);
}

// If a backend leaves the subset of this instance, its clients get backends of the subset.
TEST(affinity_leaves_a_backend_outside_of_the_subset) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const uint16_t first = client(lab, 1, 1000, SYN);

	client(lab, 1, 1000, ACK);
	lab->rows[first].flags |= WEIR_BACKEND_OUTSIDE;
	lab_publish_backends(lab);
	lab_publish_policy(lab, &params, (uint16_t[]){(uint16_t)((first + 1) % 4)}, 1);
	assert_int_equal(client(lab, 1, 1001, SYN), (first + 1) % 4);
	assert_int_equal(client(lab, 1, 1000, ACK), first);
	close_lab(lab);
}

TEST(affinity_ends_after_its_timeout_unless_flows_begin_or_end) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const uint16_t first = client(lab, 1, 1000, SYN);

	client(lab, 1, 1000, ACK);
	for (uint16_t port = 1001; port < 1004; port++) { // new flows renew the entry
		lab_wait(lab, TIMEOUT_MS - 5000);
		assert_int_equal(client(lab, 1, 1000, ACK), first); // the flow has no idle timeout
		assert_int_equal(client(lab, 1, port, SYN), first);
	}
	for (int i = 0; i < 2; i++) { // established, so the flow is still open after the wait
		assert_int_equal(client(lab, 1, 1003, ACK), first);
	}
	lab_wait(lab, TIMEOUT_MS - 5000);
	assert_int_equal(client(lab, 1, 1003, FIN_ACK),
		first); // the end of a connection also renews the entry
	lab_wait(lab, TIMEOUT_MS - 5000);
	assert_int_equal(client(lab, 1, 1010, SYN), first);
	lab_wait(lab, TIMEOUT_MS + 5000);
	assert_int_not_equal(client(lab, 1, 1011, SYN), first);
	close_lab(lab);
}

// Only flows renew the entry of a client.
TEST(affinity_is_not_renewed_by_stray_ends) {
	static const uint8_t flags[] = {FIN_ACK, RST};

	for (unsigned int i = 0; i < sizeof(flags); i++) {
		struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
		struct lab *lab = open_lab(&params);
		const uint16_t first = client(lab, 1, 1000, SYN);

		lab_wait(lab, TIMEOUT_MS - 5000);
		assert_int_equal(client(lab, 1, 2000, flags[i]), first);
		lab_wait(lab, 10000);
		assert_int_not_equal(client(lab, 1, 1001, SYN), first);
		close_lab(lab);
	}
}

// A backend at its limit does not get the flow, but the entry of the client is kept.
TEST(affinity_yields_to_flow_control) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab;
	uint16_t first;

	params.settings.max_active_flows = 2;
	lab = open_lab(&params);
	first = client(lab, 1, 1000, SYN);
	for (uint16_t port = 1000; port < 1002; port++) {
		assert_int_equal(client(lab, 1, port, port == 1000 ? ACK : SYN), first);
		assert_int_equal(client(lab, 1, port, ACK), first);
	}
	assert_int_not_equal(client(lab, 1, 1002, SYN), first);
	client(lab, 1, 1000, FIN_ACK);
	assert_int_equal(client(lab, 1, 1003, SYN), first);
	close_lab(lab);
}

// Without an affinity table, the hash of the source chooses, so a client still has only one
// backend.
TEST(affinity_without_table_is_by_hash) {
	struct weir_selection_params params = affine(WEIR_POLICY_LEAST_LOADED);
	struct lab *lab = make(&params);

	for (uint8_t n = 1; n <= CLIENTS; n++) {
		const uint16_t backend = client(lab, n, 1000, SYN);

		assert_int_equal(client(lab, n, 1001, SYN), backend);
		assert_int_equal(client(lab, n, 1001, ACK), backend);
	}
	assert_int_equal(lab_counters(lab)->affinity_full, 0);
	lab_free(lab);
}

// --- limits -----------------------------------------------------------------------------------

// The hash of the source does not choose a backend at its limit while other backends have room.
TEST(affinity_without_room_yields_to_flow_control) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	uint32_t got[4] = {0};
	struct lab *lab;

	params.settings.max_active_flows = 5;
	params.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	lab = make(&params);
	for (uint16_t port = 1000; port < 1020; port++) {
		got[client(lab, 1, port, SYN)]++;
		client(lab, 1, port, ACK);
	}
	for (uint32_t id = 0; id < 4; id++) {
		assert_int_equal(got[id], 5);
	}
	lab_free(lab);
}

// Each handshake of a client takes a slot of the limit that workers share.
TEST(affinity_reserves_slots_of_a_shared_limit) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	uint32_t got[4] = {0};

	for (uint16_t id = 0; id < 4; id++) {
		lab->rows[id].max_active_flows = 8;
	}
	lab_publish_backends(lab);
	lab_wait(lab, 1); // the pipeline adopts the rows
	for (uint16_t port = 1000; port < 1032; port++) {
		got[client(lab, 1, port, SYN)]++;
	}
	for (uint32_t id = 0; id < 4; id++) {
		assert_int_equal(got[id], 8);
	}
	close_lab(lab);
}

// A flow that leaves its backend does not get a backend at its limit. The affinity entry does not
// change because of this limit.
TEST(affinity_of_a_moved_flow_yields_to_flow_control) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	uint16_t first, second;
	struct lab *lab;

	params.settings.max_active_flows = 1;
	lab = open_lab(&params);
	first = client(lab, 1, 1000, SYN); // half-open: moves with its next SYN
	close_backend(lab, first, true);
	second = client(lab, 1, 1001, SYN);
	client(lab, 1, 1001, ACK);
	assert_int_not_equal(client(lab, 1, 1000, SYN), second);
	client(lab, 1, 1001, FIN_ACK);
	assert_int_equal(client(lab, 1, 1002, SYN), second);
	close_lab(lab);
}

// --- packets without an entry -----------------------------------------------------------------

// Sends a "fragmentation needed" that quotes a packet of the service to client n.
static uint16_t icmp_error(struct lab *lab, uint8_t n, uint16_t port) {
	const uint8_t source[4] = {192, 0, 2, n};
	const struct frame_spec answer = {.family = 4,
		.protocol = 6,
		.source = frame_vip4,
		.destination = source,
		.source_port = 80,
		.destination_port = port};
	struct frame_spec error = {.family = 4, .protocol = 1, .icmp_type = 3, .icmp_code = 4};
	struct weir_verdict verdict;
	struct frame quoted;

	frame_build(&answer, &quoted);
	error.body = quoted.bytes + quoted.l3;
	error.payload = (uint16_t)quoted.ip_bytes;
	verdict = lab_send(lab, &error);
	assert_int_equal(verdict.action, WEIR_ACTION_FORWARD);
	return verdict.backend;
}

TEST(affinity_of_icmp_errors_is_that_of_packets) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);

	for (uint8_t n = 1; n <= CLIENTS; n++) {
		const uint16_t first = client(lab, n, 1000, SYN);

		assert_int_equal(
			client(lab, n, 2000, FIN_ACK), first); // without an entry in the flow table
		assert_int_equal(icmp_error(lab, n, 2000), first);
		assert_int_equal(icmp_error(lab, n, 1000), first);
	}
	close_lab(lab);
}

TEST(affinity_answers_queries_about_unknown_flows) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);

	for (uint16_t n = 0; n < 8;
		n++) { // flows of one client, with a pause in which its entry expires
		const uint16_t backend = send_tcp(lab, n, SYN).backend;
		struct weir_message message = lab_question((uint16_t)(n + 1));

		weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
		assert_int_equal(message.flow.found, 0);
		assert_int_equal(message.flow.chosen, backend);
		assert_int_equal(message.flow.entry, WEIR_SOURCE_ENTRY_KNOWN);
		close_backend(lab, backend, true);
		weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
		assert_int_not_equal(message.flow.chosen, backend);
		assert_int_equal(message.flow.entry, WEIR_SOURCE_ENTRY_STALE);
		close_backend(lab, backend, false);
		lab_wait(lab, TIMEOUT_MS + 5000);
		weir_flow_query_respond(lab->pipeline, &message, lab->now_ns);
		assert_int_equal(message.flow.entry, WEIR_SOURCE_ENTRY_NONE);
	}
	close_lab(lab);
}

// A flow that must leave its backend goes to the backend of the new flows of its client.
TEST(affinity_of_flows_that_lose_their_backend) {
	for (int gone = 0; gone < 2; gone++) {
		struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
		struct lab *lab = open_lab(&params);
		uint16_t first[CLIENTS + 1], second[CLIENTS + 1];

		for (uint8_t n = 1; n <= CLIENTS; n++) {
			first[n] = client(lab, n, 1000, SYN);
			client(lab, n, 1000, ACK);
		}
		close_backend(lab, 0, true);
		for (uint8_t n = 1; n <= CLIENTS; n++) {
			second[n] = client(lab, n, 1001, SYN);
			assert_true((second[n] == first[n]) == (first[n] != 0));
		}
		lab->rows[0].flags = (uint8_t)(gone ? 0
						    : lab->rows[0].flags | WEIR_BACKEND_DOWN |
							       WEIR_BACKEND_REHASH);
		lab_publish_backends(lab);
		for (uint8_t n = 1; n <= CLIENTS; n++) {
			assert_int_equal(client(lab, n, 1000, ACK), second[n]);
		}
		lab_free(lab);
	}
}

// While no next hop is resolved, packets are lost, but clients keep their backends.
TEST(affinity_outlasts_the_loss_of_all_next_hops) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const struct frame_spec syn = {.family = 4,
		.protocol = 6,
		.source = (const uint8_t[4]){192, 0, 2, 1},
		.source_port = 1001,
		.tcp_flags = SYN};
	const uint16_t first = client(lab, 1, 1000, SYN);

	for (uint16_t id = 0; id < 4; id++) {
		lab->rows[id].flags = WEIR_BACKEND_PRESENT;
	}
	lab_publish_backends(lab);
	assert_int_equal(lab_send(lab, &syn).reason, WEIR_DROP_NO_NEIGHBOUR);
	for (uint16_t id = 0; id < 4; id++) {
		close_backend(lab, id, false);
	}
	assert_int_equal(client(lab, 1, 1002, SYN), first);
	close_lab(lab);
}

// --- ids --------------------------------------------------------------------------------------

// The backend id in an entry may be reused for a backend of another service.
TEST(affinity_never_crosses_services) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const uint16_t first = client(lab, 1, 1000, SYN);
	uint16_t ids[3], n = 0;

	client(lab, 1, 1000, RST);
	for (uint16_t id = 0; id < 4; id++) {
		if (id != first) {
			ids[n++] = id;
		}
	}
	lab_publish_policy(lab, &params, ids, 3);
	lab->rows[first].service = 1;
	lab_publish_backends(lab);
	for (uint16_t port = 1001; port < 1010; port++) {
		assert_int_not_equal(client(lab, 1, port, SYN), first);
	}
	lab_free(lab);
}

// --- reloads ----------------------------------------------------------------------------------

TEST(affinity_outlasts_a_change_of_the_policy) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct weir_selection_params other = params_of(WEIR_POLICY_MAGLEV);
	struct lab *lab = open_lab(&params);
	uint16_t first[CLIENTS + 1];

	other.settings.hash4 = 32;
	other.settings.hash6 = 128;
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		first[n] = client(lab, n, 1000, SYN);
		client(lab, n, 1000, ACK);
	}
	lab_publish_policy(lab, &other, (uint16_t[]){0, 1, 2, 3}, 4);
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		const uint16_t hashed = client(lab, n, 1001, SYN);

		assert_int_equal(client(lab, n, 1002, SYN), hashed);
		assert_int_equal(client(lab, n, 1001, ACK), hashed);
		assert_int_equal(client(lab, n, 1000, ACK), first[n]);
	}
	params = affine(WEIR_POLICY_LEAST_LOADED);
	lab_publish_policy(lab, &params, (uint16_t[]){0, 1, 2, 3}, 4);
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		assert_int_equal(client(lab, n, 1003, SYN), first[n]);
	}
	close_lab(lab);
}

static uint16_t client6(struct lab *lab, uint8_t n, uint16_t port, uint8_t flags) {
	const uint8_t source[16] = {0x20, 1, 0xd, 0xb8, 0, 3, [15] = n};

	return send_from(lab, source, 6, port, flags);
}

// With another prefix length, addresses are grouped into other clients, but not those of the other
// family. Open connections stay at their backends.
TEST(affinity_outlasts_no_change_of_a_prefix) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	uint16_t first[CLIENTS + 1], first6[CLIENTS + 1], network;

	for (uint8_t n = 1; n <= CLIENTS; n++) {
		first6[n] = client6(lab, n, 1000, SYN);
	}
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		first[n] = client(lab, n, 1000, SYN);
		client(lab, n, 1000, ACK);
	}
	params.settings.hash4 = 24 | WEIR_HASH_AFFINITY;
	lab_publish_policy(lab, &params, (uint16_t[]){0, 1, 2, 3}, 4);
	network = client(lab, 1, 1001, SYN);
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		assert_int_equal(client(lab, n, 1001, SYN), network);
		assert_int_equal(client(lab, n, 1000, ACK), first[n]);
		assert_int_equal(client6(lab, n, 1001, SYN), first6[n]);
	}
	close_lab(lab);
}

TEST(affinity_keeps_clients_of_datagrams) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	const uint8_t source[4] = {192, 0, 2, 1};
	uint16_t first;

	params.service = 1;
	lab_publish_policy(lab, &params, (uint16_t[]){4, 5}, 2);
	first = datagram(lab, source, 1000);
	for (uint16_t port = 1000; port < 1010; port++) {
		assert_int_equal(datagram(lab, source, port), first);
		assert_int_equal(datagram(lab, source, port), first);
	}
	lab_wait(lab, TIMEOUT_MS + 5000);
	assert_int_not_equal(datagram(lab, source, 2000), first);
	close_lab(lab);
}
