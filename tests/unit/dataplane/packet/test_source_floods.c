// SPDX-License-Identifier: BSD-3-Clause
//
// Affinity in floods of forged packets: clients keep their backend.
#include "source_lab.h"

TEST_GROUP(lab_eal);

// SYNs from forged sources, far more than the table has room for.
TEST(affinity_of_clients_survives_a_flood) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	uint16_t first[CLIENTS + 1];

	for (uint8_t n = 1; n <= CLIENTS; n++) {
		first[n] = client(lab, n, 1000, SYN);
		client(lab, n, 1000, ACK);
	}
	for (uint32_t i = 0; i < 60000; i++) {
		const uint8_t source[4] = {11, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};

		send_from(lab, source, 4, 5000, SYN);
	}
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		assert_int_equal(client(lab, n, 1001, SYN), first[n]);
		assert_int_equal(client(lab, n, 1001, ACK), first[n]);
		// a packet whose flow has no entry, for example after a restart
		assert_int_equal(client(lab, n, 1002, ACK), first[n]);
	}
	close_lab(lab);
}

// Forged datagrams, two of each source, prove nothing: TCP clients are remembered nevertheless.
TEST(affinity_of_clients_needs_no_room_from_datagrams) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);

	params.service = 1;
	lab_publish_policy(lab, &params, (uint16_t[]){4, 5}, 2);
	for (uint32_t i = 0; i < 20000; i++) {
		const uint8_t source[4] = {11, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};

		datagram(lab, source, 5000);
		datagram(lab, source, 5000);
	}
	for (uint8_t n = 1; n <= CLIENTS; n++) {
		const uint16_t first = client(lab, n, 1000, SYN);

		assert_int_equal(client(lab, n, 1000, ACK), first);
		assert_int_equal(client(lab, n, 1001, SYN), first);
	}
	assert_int_equal(lab_counters(lab)->affinity_full, 0);
	lab_check_counters(lab);
	close_lab(lab);
}

// Who forges a SYN and an ACK of each source can fill the table. Clients that were in it keep their
// backend, and others keep that of their hash.
TEST(affinity_of_clients_survives_forged_handshakes) {
	struct weir_selection_params params = affine(WEIR_POLICY_ROUND_ROBIN);
	struct lab *lab = open_lab(&params);
	uint16_t first[2 * CLIENTS + 1];
	uint64_t full;

	for (uint8_t n = 1; n <= CLIENTS; n++) {
		first[n] = client(lab, n, 1000, SYN);
		client(lab, n, 1000, ACK);
	}
	for (uint32_t i = 0; i < 20000; i++) {
		const uint8_t source[4] = {11, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};

		send_from(lab, source, 4, 5000, SYN);
		send_from(lab, source, 4, 5000, ACK);
	}
	lab_wait(lab, 30000); // the flow table has room again, the affinity table does not
	full = lab_counters(lab)->affinity_full;
	for (uint8_t n = 1; n <= 2 * CLIENTS; n++) {
		if (n > CLIENTS) {
			first[n] = client(lab, n, 1000, SYN);
			client(lab, n, 1000, ACK);
		}
		for (uint16_t port = 1001; port < 1004; port++) {
			assert_int_equal(client(lab, n, port, SYN), first[n]);
			assert_int_equal(client(lab, n, port, ACK), first[n]);
			assert_int_equal(client(lab, n, 2000, ACK), first[n]); // no entry
		}
	}
	assert_in_range(lab_counters(lab)->affinity_full - full, 3 * CLIENTS, 4 * CLIENTS);
	close_lab(lab);
}
