// SPDX-License-Identifier: BSD-3-Clause
//
// Tests, with real tables, what happens when a host reports that it rejects tunnel packets: for
// which backends the report counts, and whether these backends are ejected.
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rejections.h"
#include "tables_lab.h"

struct own {
	struct lab lab;
	struct weir_config *config; // services s0 (TCP) and s1 (UDP), backends b0 to b3 of each
	struct weir_log log;
	struct weir_states *states;
	struct weir_outliers *outliers;
	struct weir_rejections *rejections;
	uint64_t now_ms;
};

static void on_changed(void *context) {
	(void)context;
}

// Both services have backends on the same hosts.
static struct weir_config *make_config(void) {
	struct weir_config *config = lab_config(2, 4);

	for (uint32_t s = 0; s < 2; s++) {
		config->services[s].outlier_ejection =
			(struct weir_config_outlier_ejection){.enabled = true,
				.interval_ms = 10000,
				.base_ejection_ms = 30000,
				.max_ejection_ms = 300000,
				.max_ejection_percent = 10,
				.failure_percent = 85,
				.minimum_flows = 50,
				.unreachable_flows = 3};
		for (uint32_t b = 0; b < 4; b++) {
			config->services[s].backends[b].address.bytes[1] = 0;
		}
	}
	config->services[1].binds[0].protocol = IPPROTO_UDP;
	return config;
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));
	struct weir_next_hop hop = lab_hop(1);

	assert_non_null(own);
	own->log = (struct weir_log){.fd = -1};
	own->now_ms = 1000000;
	own->config = make_config();
	lab_open(&own->lab, NULL);
	assert_int_equal(weir_states_create(&own->log, on_changed, own, &own->states), 0);
	assert_int_equal(weir_outliers_create(&own->log, own->states, &own->outliers), 0);
	assert_int_equal(weir_rejections_create(own->outliers, &own->rejections), 0);
	weir_rejections_tick(own->rejections, own->now_ms); // there are no sockets to read
	lab_apply(&own->lab, own->config);
	hop.source = weir_address_of(4, (const uint8_t[4]){10, 0, 8, 0});
	hop.source_bits = 8;
	for (uint32_t id = 0; id < weir_tables_backend_ids(own->lab.tables); id++) {
		weir_tables_set_next_hop(own->lab.tables, (uint16_t)id, &hop);
	}
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	assert_int_equal(weir_outliers_follow(own->outliers, own->lab.tables, own->config), 0);
	assert_int_equal(weir_rejections_follow(own->rejections, own->lab.tables, own->config), 0);
	lab_publish(&own->lab);
	weir_outliers_second(own->outliers, own->now_ms);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_rejections_free(own->rejections);
	weir_outliers_free(own->outliers);
	weir_states_free(own->states);
	lab_close(&own->lab);
	lab_config_free(own->config);
	free(own);
	return 0;
}

static bool is_ejected(const struct own *own, const char *service, const char *backend) {
	return lab_state(&own->lab, lab_id(&own->lab, service, backend)).ejected;
}

// Returns a report that host 10.0.0.1 rejects a datagram to s1. The host is b1 of both services.
static struct weir_unreachable_report report(const struct own *own, uint16_t client_port) {
	return (struct weir_unreachable_report){.kind = WEIR_UNREACHABLE_PORT,
		.forwarding = {.mode = WEIR_FORWARDING_IPIP, .gue_port = WEIR_GUE_PORT},
		.protocol = IPPROTO_UDP,
		.client_port = client_port,
		.vip_port = 80,
		.host = own->config->services[1].backends[1].address,
		.source = weir_address_of(4, (const uint8_t[4]){10, 0, 8, 77}),
		.client = weir_address_of(4, (const uint8_t[4]){192, 0, 2, 2}),
		.vip = own->config->services[1].binds[0].address};
}

TEST_EACH(setup, teardown);

TEST(rejecting_host_is_ejected_from_its_services) {
	struct own *own = *state;
	struct weir_states_change change;

	for (uint16_t second = 0; second < 3; second++) {
		struct weir_unreachable_report one = report(own, (uint16_t)(5000 + second));

		assert_false(is_ejected(own, "s1", "b1"));
		assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms + 500), 2);
		own->now_ms += 1000;
		weir_outliers_second(own->outliers, own->now_ms);
	}
	assert_true(is_ejected(own, "s0", "b1"));
	assert_true(is_ejected(own, "s1", "b1"));
	assert_false(is_ejected(own, "s1", "b0"));
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.why, "ejected for 30.0s: host rejects tunnel packets, 3 ICMP "
					"errors, port unreachable");
}

// A flood of forged messages names all backends in turn. It ejects only as many backends as the
// limits allow.
TEST(forged_storm_ejects_one) {
	struct own *own = *state;
	uint32_t ejected = 0;

	for (uint32_t second = 0; second < 20; second++) {
		for (uint16_t i = 0; i < 4000; i++) {
			struct weir_unreachable_report one = report(own, i);

			one.host = own->config->services[1].backends[i % 4].address;
			weir_rejections_take(own->rejections, &one, own->now_ms + i / 4);
		}
		own->now_ms += 1000;
		weir_outliers_second(own->outliers, own->now_ms);
	}
	for (uint32_t b = 0; b < 4; b++) {
		ejected += is_ejected(own, "s1", own->config->services[1].backends[b].name);
	}
	assert_int_equal(ejected, 1);
}

// An established connection shows that packets arrive at the backend. So the messages about the
// backend do not count.
TEST(established_connections_contradict_messages) {
	struct own *own = *state;

	for (uint16_t second = 0; second < 20; second++) {
		struct weir_unreachable_report one = report(own, second);
		struct weir_share_counters *counters = weir_segment_backend_counters(
			own->lab.segment, 0, lab_id(&own->lab, "s0", "b1"));

		weir_rejections_take(own->rejections, &one, own->now_ms + 500);
		weir_counter_add(&counters->established, 1);
		own->now_ms += 1000;
		weir_outliers_second(own->outliers, own->now_ms);
		assert_false(is_ejected(own, "s0", "b1"));
	}
}

// A host that decapsulates IPv6 rejects packets that arrive in fragments. Such messages count for
// no backend.
TEST(packets_in_fragments_count_for_no_backend) {
	struct own *own = *state;
	struct weir_unreachable_report one = report(own, 1);
	struct weir_next_hop hop = lab_hop(1);

	one.bytes = 1500;
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 2);
	one.bytes++; // more bytes than the port can send
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 0);
	hop.source = weir_address_of(4, (const uint8_t[4]){10, 0, 8, 0});
	hop.source_bits = 8;
	hop.mtu = 1280;
	for (uint32_t id = 0; id < weir_tables_backend_ids(own->lab.tables); id++) {
		weir_tables_set_next_hop(own->lab.tables, (uint16_t)id, &hop);
	}
	one.bytes = 1288; // a client's packet of 1,248 bytes
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 0);
	one.bytes = 1280;
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 2);
}

// A host without a GUE receiver can have a working IP-in-IP tunnel for another service.
TEST(reports_count_only_for_the_same_forwarding) {
	static const struct weir_forwarding others[] = {
		{.mode = WEIR_FORWARDING_L2},
		{.mode = WEIR_FORWARDING_GUE, .gue_port = WEIR_GUE_PORT},
		{.mode = WEIR_FORWARDING_GRE, .gre_key = 7},
	};
	struct own *own = *state;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct weir_config *other = lab_config_copy(own->config);
		struct weir_unreachable_report one = report(own, 1);

		other->services[0].forwarding = others[i];
		lab_apply(&own->lab, other);
		weir_rejections_follow(own->rejections, own->lab.tables, other);
		assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 1);
		// simulates a quoted flow whose service uses the other mode
		one.forwarding = others[i];
		assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 0);
		lab_apply(&own->lab, own->config);
		weir_rejections_follow(own->rejections, own->lab.tables, own->config);
		lab_config_free(other);
	}
}

TEST(other_reports_count_for_no_backend) {
	struct own *own = *state;
	struct weir_unreachable_report one = report(own, 1);

	one.source.bytes[2]++; // the source is not the balancer
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 0);
	one = report(own, 1);
	one.host.bytes[3] = 99; // the host is not a backend
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 0);
	one = report(own, 1);
	one.protocol = IPPROTO_TCP; // for TCP this VIP belongs to no service
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 0);
	one = report(own, 1);
	one.vip_port++;
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 0);
	own->config->services[0].outlier_ejection.unreachable_flows = 0;
	one = report(own, 1);
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 1);
	own->config->services[1].outlier_ejection.enabled = false;
	weir_rejections_follow(own->rejections, own->lab.tables, own->config);
	assert_int_equal(weir_rejections_take(own->rejections, &one, own->now_ms), 0);
}
