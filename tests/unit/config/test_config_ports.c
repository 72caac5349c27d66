// SPDX-License-Identifier: BSD-3-Clause
#include "config_lab.h"

#define PORT(extra) "{\"name\": \"wan\", \"device\": \"net_null0\"" extra "}"
#define WITH_PORTS(ports) "{\"ports\": [" ports "], \"services\": []}"

TEST(ports_defaults) {
	struct weir_config *config = parse_good(WITH_PORTS(PORT("")));
	const struct weir_config_port *port = &config->ports[0];

	assert_int_equal(config->port_count, 1);
	assert_string_equal(port->name, "wan");
	assert_string_equal(port->device, "net_null0");
	assert_string_equal(port->exception, "");
	assert_int_equal(port->mtu, 1500);
	assert_int_equal(port->vlan, 0);
	assert_false(port->has_gateway_mac);
	assert_int_equal(port->source_ipv4.family, 0);
	assert_int_equal(port->source_ipv6.family, 0);
	assert_int_equal(port->queues, 0);
	weir_config_free(config);
}

TEST(ports_every_key) {
	static const uint8_t mac[6] = {0x02, 0xAB, 0xcd, 0x00, 0x00, 0x01};
	struct weir_config *config = parse_good(WITH_PORTS(
		PORT(", \"exception\": \"net_tap0\", \"mtu\": 9216, \"vlan\": 4094, "
		     "\"gateway_mac\": \"02:AB:cd:00:00:01\", \"source_ipv4\": \"192.0.2.1\", "
		     "\"source_ipv6\": \"2001:db8::1\", \"queues\": 64")));
	const struct weir_config_port *port = &config->ports[0];

	assert_string_equal(port->exception, "net_tap0");
	assert_int_equal(port->mtu, 9216);
	assert_int_equal(port->vlan, 4094);
	assert_true(port->has_gateway_mac);
	assert_memory_equal(port->gateway_mac, mac, sizeof(mac));
	assert_int_equal(port->source_ipv4.family, 4);
	assert_int_equal(port->source_ipv6.family, 6);
	assert_int_equal(port->queues, 64);
	weir_config_free(config);
}

TEST(ports_null_is_not_set) {
	struct weir_config *config =
		parse_good(WITH_PORTS(PORT(", \"vlan\": null, \"gateway_mac\": null, "
					   "\"source_ipv4\": null, \"exception\": null")));

	assert_int_equal(config->ports[0].vlan, 0);
	assert_false(config->ports[0].has_gateway_mac);
	assert_int_equal(config->ports[0].source_ipv4.family, 0);
	weir_config_free(config);
	expect_one_error(WITH_PORTS(PORT(", \"mtu\": null")), "ports[0].mtu", "not null");
}

TEST(ports_share_no_device) {
	const char *first = PORT(", \"exception\": \"net_tap0\"");
	static const struct {
		const char *second, *path;
	} cases[] = {
		{"{\"name\": \"b\", \"device\": \"net_null0\"}", "ports[1].device"},
		{"{\"name\": \"b\", \"device\": \"net_tap0,iface=x\"}", "ports[1].device"},
		{"{\"name\": \"b\", \"device\": \"net_null1\", \"exception\": \"net_tap0\"}",
			"ports[1].exception"},
		{"{\"name\": \"b\", \"device\": \"net_null1\", \"exception\": \"net_null0\"}",
			"ports[1].exception"},
	};
	char text[400];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text),
			JSON({"ports": [%s, %s], "services": []}), first, cases[i].second);
		expect_one_error(text, cases[i].path, "is already used by ports[0]");
	}
	// Two device names are different even if one is a prefix of the other.
	weir_config_free(parse_good(
		WITH_PORTS(PORT("") ", {\"name\": \"b\", \"device\": \"net_null01,size=64\"}")));
}

TEST(port_source_is_unicast) {
	expect_one_error(WITH_PORTS(PORT(", \"source_ipv4\": \"127.0.0.1\"")),
		"ports[0].source_ipv4", "unicast");
	expect_one_error(WITH_PORTS(PORT(", \"source_ipv4\": \"0.0.0.0\"")), "ports[0].source_ipv4",
		"unicast");
	expect_one_error(
		WITH_PORTS(PORT(", \"source_ipv6\": \"::\"")), "ports[0].source_ipv6", "unicast");
	expect_one_error(WITH_PORTS(PORT(", \"source_ipv6\": \"ff02::1\"")), "ports[0].source_ipv6",
		"unicast");
}

TEST(source_prefix_is_16_to_32_bits_long) {
	static const char *const wrong[] = {"192.0.2.64/15", "192.0.2.64/33", "192.0.2.64/",
		"192.0.2.64/2x", "192.0.2.64/028", "192.0.2.64/ 28", "/28", "192.0.2.64/28/28",
		"2001:db8::1/28", "192.0.2.64/-1", "192.0.2.64.192.0.2.64.192.0.2.64/28"};
	static const struct {
		const char *text;
		uint8_t bits;
	} good[] = {{"192.0.2.64/28", 4}, {"192.0.0.0/16", 16}, {"192.0.2.77/32", 0},
		{"192.0.2.77", 0}, {"192.0.2.76/31", 1}};
	char text[200];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct weir_config *config;

		snprintf(text, sizeof(text), WITH_PORTS(PORT(", \"source_ipv4\": \"%s\"")),
			good[i].text);
		config = parse_good(text);
		assert_int_equal(config->ports[0].source_ipv4.family, 4);
		assert_int_equal(config->ports[0].source_ipv4_bits, good[i].bits);
		weir_config_free(config);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), WITH_PORTS(PORT(", \"source_ipv4\": \"%s\"")),
			wrong[i]);
		expect_one_error(text, "ports[0].source_ipv4", "16 to 32 bits");
	}
	expect_one_error(WITH_PORTS(PORT(", \"source_ipv4\": \"192.0.2.70/28\"")),
		"ports[0].source_ipv4", "first address");
	expect_one_error(WITH_PORTS(PORT(", \"source_ipv4\": \"127.0.0.0/28\"")),
		"ports[0].source_ipv4", "unicast");
}

TEST(instance_client_id_is_below_clients) {
	struct weir_config *config = parse_good(CONFIG(
		"\"instance\": {\"client_id\": 3, \"clients\": 4, \"hash_seed\": \"0xff\"},", ""));

	assert_int_equal(config->instance.client_id, 3);
	assert_int_equal(config->instance.clients, 4);
	assert_int_equal(config->instance.hash_seed, 0xff);
	weir_config_free(config);
	// The default number of instances is 1.
	expect_one_error(CONFIG("\"instance\": {\"client_id\": 1},", ""), "instance.client_id",
		"not below clients (1)");
	// Only one error is reported, because values out of range are not compared.
	expect_one_error(CONFIG("\"instance\": {\"client_id\": 5, \"clients\": 0},", ""),
		"instance.clients", "out of range");
}

TEST(instance_member_is_below_members) {
	struct weir_config *config =
		parse_good(CONFIG("\"instance\": {\"member\": 2, \"members\": 3},", ""));

	assert_int_equal(config->instance.member, 2);
	assert_int_equal(config->instance.members, 3);
	weir_config_free(config);
	config = parse_good(CONFIG("", ""));
	assert_int_equal(config->instance.member, 0);
	assert_int_equal(config->instance.members, 1);
	weir_config_free(config);
	expect_one_error(CONFIG("\"instance\": {\"member\": 1},", ""), "instance.member",
		"not below members (1)");
	expect_one_error(CONFIG("\"instance\": {\"member\": 1, \"members\": 0},", ""),
		"instance.members", "out of range");
}

TEST(segment_heap_is_whole_pages) {
	struct weir_config *config =
		parse_good(CONFIG("\"segment\": {\"heap_bytes\": 1052672},", ""));

	assert_int_equal(config->segment.heap_bytes, 1052672);
	weir_config_free(config);
	expect_one_error(CONFIG("\"segment\": {\"heap_bytes\": 1052671},", ""),
		"segment.heap_bytes", "use 1052672");
}
