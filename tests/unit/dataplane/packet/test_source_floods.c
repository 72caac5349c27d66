// SPDX-License-Identifier: BSD-3-Clause
//
// Tests affinity during floods of forged packets: clients keep their backends.
#include "source_lab.h"

TEST_GROUP(lab_eal);

// Sends SYNs from forged sources, many more than the table has entries.
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
		// Sends a packet whose flow has no entry in the flow table, as after a restart.
		assert_int_equal(client(lab, n, 1002, ACK), first[n]);
	}
	close_lab(lab);
}

// Two forged datagrams of each source do not make its entry proven, so TCP clients still get
// entries.
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

// An attacker who forges a SYN and an ACK of each source can fill the table. Clients with an entry
// keep their backend. Clients without an entry get the backend of their hash.
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
	lab_wait(lab, 30000); // then the flow table has room again, but the affinity table does not
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
