// SPDX-License-Identifier: BSD-3-Clause
#include <netinet/in.h>

#include "config_lab.h"

#define RANGE(first, last) \
	"{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port_first\": " #first \
	", \"port_last\": " #last "}"
#define EVERY "{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 0}"
#define ONE(extra) CONFIG("", SERVICE(extra, BIND, BACKEND))
#define BINDS(binds) CONFIG("", SERVICE("", binds, BACKEND))

TEST(service_defaults) {
	struct weir_config *config = parse_good(ONE(""));
	const struct weir_config_service *service = &config->services[0];
	const struct weir_config_health_check *check = &service->health_check;

	assert_string_equal(service->name, "web");
	assert_int_equal(service->policy.name, WEIR_POLICY_MAGLEV);
	assert_int_equal(service->forwarding.mode, WEIR_FORWARDING_IPIP);
	assert_int_equal(service->forwarding.gue_port, 6080);
	assert_int_equal(service->forwarding.gre_key, 0);
	assert_int_equal(service->table_size, 65537);
	assert_int_equal(service->panic_threshold_percent, 50);
	assert_int_equal(service->on_backend_down, WEIR_ON_BACKEND_DOWN_KEEP);
	assert_int_equal(service->drain.at_deadline, WEIR_AT_DEADLINE_KEEP);
	assert_int_equal(service->backend_count, 1);
	assert_int_equal(service->backends[0].weight, 100);
	assert_int_equal(check->type, WEIR_CHECK_NONE);
	assert_int_equal(check->via, WEIR_VIA_DIRECT);
	assert_string_equal(check->url.path, "/");
	assert_string_equal(check->host, "");
	assert_int_equal(check->port, 0);
	assert_int_equal(check->url.status_first, 200);
	assert_int_equal(check->url.status_last, 399);
	assert_int_equal(check->interval_ms, 1000);
	assert_int_equal(check->timeout_ms, 500);
	assert_int_equal(check->rise, 2);
	assert_int_equal(check->fall, 3);
	weir_config_free(config);
}

TEST(check_sends_and_expects_bytes) {
	struct weir_config *config =
		parse_good(ONE("\"health_check\": {\"type\": \"tcp\", \"send\": \"PING\\r\\n\", "
			       "\"expect_hex\": \" 2b50 4F4e47 \", \"match\": \"substring\"},"));
	const struct weir_config_health_check *check = &config->services[0].health_check;
	const uint8_t *bytes;

	assert_true(weir_config_expects(check));
	assert_int_equal(check->match, WEIR_MATCH_SUBSTRING);
	assert_int_equal(weir_config_bytes_to_send(check, &bytes), 6);
	assert_memory_equal(bytes, "PING\r\n", 6);
	assert_int_equal(weir_config_bytes_to_expect(check, &bytes), 5);
	assert_memory_equal(bytes, "+PONG", 5);
	weir_config_free(config);
	config = parse_good(ONE("\"health_check\": {\"type\": \"tcp\"},"));
	check = &config->services[0].health_check;
	assert_false(weir_config_expects(check));
	assert_int_equal(check->match, WEIR_MATCH_PREFIX);
	assert_int_equal(weir_config_bytes_to_send(check, &bytes), 0);
	assert_int_equal(weir_config_bytes_to_expect(check, &bytes), 0);
	weir_config_free(config);
}

TEST(check_of_a_dns_server) {
	struct weir_config *config = parse_good(
		ONE("\"health_check\": {\"type\": \"dns\", \"port\": 53, \"name\": \".\"},"));
	const struct weir_config_health_check *check = &config->services[0].health_check;

	assert_int_equal(check->record, 6);
	assert_int_equal(check->rcode, 0);
	assert_int_equal(check->address.family, 0);
	weir_config_free(config);
	config = parse_good(ONE("\"health_check\": {\"type\": \"dns\", \"port\": 53, \"name\": "
				"\"www.example.com.\", \"record\": \"AAAA\", \"address\": "
				"\"2001:db8::1\"},"));
	check = &config->services[0].health_check;
	assert_string_equal(check->name, "www.example.com.");
	assert_int_equal(check->record, 28);
	assert_int_equal(check->address.family, 6);
	weir_config_free(config);
}

// A ping has no port, so the binds of the service may cover every port.
TEST(check_by_ping_needs_no_port) {
	weir_config_free(parse_good(
		CONFIG("", SERVICE("\"health_check\": {\"type\": \"ping\"},", EVERY, BACKEND))));
}

// Checks over UDP use the first UDP bind, others the first bind.
TEST(check_uses_a_bind_of_its_protocol) {
	struct weir_config *config = parse_good(CONFIG("",
		SERVICE("\"health_check\": {\"type\": \"udp\"},",
			BIND ", {\"address\": \"198.51.100.10\", \"protocol\": \"udp\", \"port\": "
			     "53}",
			BACKEND)));
	struct weir_config_service *service = &config->services[0];

	assert_int_equal(weir_config_checked_bind(service, &service->health_check)->port_first, 53);
	service->health_check.type = WEIR_CHECK_DNS;
	assert_int_equal(weir_config_checked_bind(service, &service->health_check)->port_first, 53);
	service->health_check.type = WEIR_CHECK_TCP;
	assert_int_equal(weir_config_checked_bind(service, &service->health_check)->port_first, 80);
	weir_config_free(config);
}

// 255 bytes are the most, as text and in hexadecimal digits.
TEST(check_has_a_limit_of_bytes) {
	for (int hex = 0; hex < 2; hex++) {
		char digits[2 * 256 + 1], text[1024];

		for (int bytes = 255; bytes < 257; bytes++) {
			memset(digits, 'a', sizeof(digits));
			digits[bytes * (1 + hex)] = '\0';
			snprintf(text, sizeof(text),
				ONE("\"health_check\": {\"type\": \"tcp\", \"expect%s\": \"%s\"},"),
				hex ? "_hex" : "", digits);
			if (bytes > 255) {
				expect_one_error(text,
					hex ? "services[0].health_check.expect_hex"
					    : "services[0].health_check.expect",
					"has 256 bytes; use 1 to 255 bytes");
			} else {
				weir_config_free(parse_good(text));
			}
		}
	}
}

TEST(weight_may_be_automatic) {
	struct weir_config *config = parse_good(
		CONFIG("", SERVICE("\"agent\": {},", BIND,
				   BACKEND ", {\"name\": \"web-2\", \"address\": \"10.0.0.12\", "
					   "\"weight\": \"auto\"}")));
	const struct weir_config_backend *backends = config->services[0].backends;

	assert_false(backends[0].weight_auto);
	assert_int_equal(backends[0].weight, 100);
	assert_true(backends[1].weight_auto);
	assert_int_equal(backends[1].weight, WEIR_CONFIG_WEIGHT_DEFAULT);
	weir_config_free(config);
}

TEST(bind_port_becomes_a_range) {
	struct weir_config *config = parse_good(BINDS(BIND ", " RANGE(8000, 8099) ", " EVERY));
	const struct weir_config_bind *binds = config->services[0].binds;

	assert_int_equal(config->services[0].bind_count, 3);
	assert_int_equal(binds[0].protocol, IPPROTO_TCP);
	assert_int_equal(binds[0].port_first, 80);
	assert_int_equal(binds[0].port_last, 80);
	assert_int_equal(binds[1].port_first, 8000);
	assert_int_equal(binds[1].port_last, 8099);
	assert_int_equal(binds[2].port_first, 0);
	assert_int_equal(binds[2].port_last, 65535);
	weir_config_free(config);
}

TEST(binds_overlap_only_with_different_widths) {
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
		{BINDS(RANGE(10, 19) ", " RANGE(20, 29)), true},
		{BINDS(RANGE(10, 19) ", " RANGE(19, 28)), false},
		{BINDS(RANGE(10, 19) ", " RANGE(15, 16)), true},
		{BINDS(RANGE(10, 19) ", " RANGE(19, 29)), true},
		{BINDS(RANGE(10, 19) ", " RANGE(10, 19)), false},
		{BINDS(RANGE(80, 80) ", " BIND), false},
		{BINDS(EVERY ", " BIND), true},
		{BINDS(EVERY ", " RANGE(1, 65535)), true},
		{BINDS(EVERY ", " EVERY), false},
		{BINDS(RANGE(20, 29) ", " RANGE(40, 49) ", " RANGE(1, 10) ", " RANGE(31, 40)),
			false},
		{BINDS(BIND ", {\"address\": \"198.51.100.10\", \"protocol\": \"udp\", \"port\": "
			    "80}"),
			true},
		{BINDS(BIND ", {\"address\": \"198.51.100.11\", \"protocol\": \"tcp\", \"port\": "
			    "80}"),
			true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = NULL;
		struct weir_config_errors errors;
		int r = weir_config_parse(cases[i].text, strlen(cases[i].text), &config, &errors);

		if (cases[i].good != (r == 0) || errors.count != !cases[i].good) {
			fail_msg("case %zu: %d, %u errors", i, r, errors.count);
		}
		weir_config_errors_fini(&errors);
		weir_config_free(config);
	}
}

// The error is reported for the bind that is later in the file, even if its ports are lower.
TEST(overlap_is_reported_at_the_later_bind) {
	expect_one_error(BINDS(RANGE(15, 24) ", " RANGE(10, 19)), "services[0].binds[1]",
		"services[0].binds[0]");
}

TEST(table_size_next_prime) {
	expect_one_error(ONE("\"table_size\": 65536,"), "services[0].table_size", "use 65537");
	expect_one_error(
		ONE("\"table_size\": 16777212,"), "services[0].table_size", "use 16777213");
	expect_one_error(ONE("\"table_size\": 4,"), "services[0].table_size", "use 5");
	weir_config_free(parse_good(ONE("\"table_size\": 2,")));
	weir_config_free(parse_good(ONE("\"table_size\": 16777213,")));
}

TEST(health_check_default_is_named_in_the_message) {
	expect_one_error(ONE("\"health_check\": {\"type\": \"tcp\", \"interval_ms\": 499},"),
		"services[0].health_check.interval_ms", "timeout_ms (500, the default)");
	expect_one_error(ONE("\"health_check\": {\"type\": \"tcp\", \"timeout_ms\": 1001},"),
		"services[0].health_check.timeout_ms", "interval_ms (1000, the default)");
	weir_config_free(parse_good(ONE("\"health_check\": {\"type\": \"tcp\", \"interval_ms\": "
					"500},")));
}

// A check via the data path uses the VIP and the port of the first TCP bind. The key "port"
// overrides the port.
TEST(health_check_via_data_path_uses_the_first_tcp_bind) {
	static const char udp[] = JSON({"address": "198.51.100.9", "protocol": "udp", "port": 53});
	static const struct {
		const char *check, *more;
		uint16_t port;
	} cases[] = {
		{"\"type\": \"tcp\"", ", " BIND, 53},
		{"\"type\": \"tcp\", \"via\": \"direct\"", ", " BIND, 53},
		{"\"type\": \"tcp\", \"via\": \"data-path\"", ", " BIND, 80},
		{"\"type\": \"tcp\", \"via\": \"data-path\", \"port\": 8080", "", 53},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char service[256], text[2048];
		struct weir_config *config;
		const struct weir_config_service *parsed;

		snprintf(service, sizeof(service), "\"health_check\": {%s},", cases[i].check);
		snprintf(text, sizeof(text), CONFIG("", SERVICE("%s", "%s%s", BACKEND)), service,
			udp, cases[i].more);
		config = parse_good(text);
		parsed = &config->services[0];
		assert_int_equal(
			weir_config_checked_bind(parsed, &parsed->health_check)->port_first,
			cases[i].port);
		weir_config_free(config);
	}
}

#define OWN(check) \
	BACKEND ", {\"name\": \"web-2\", \"address\": \"10.0.0.12\", \"health_check\": {" check "}}"

// An own check takes what it lacks from the check of the service if both have the same type.
TEST(own_check_of_a_backend) {
	struct weir_config *config = parse_good(CONFIG("",
		SERVICE("\"health_check\": {\"type\": \"http\", \"path\": \"/up\", \"body\": "
			"\"ok\", "
			"\"interval_ms\": 2000, \"port\": 81},",
			BIND, OWN("\"type\": \"http\", \"port\": 0, \"body_regex\": \"o+k\""))));
	const struct weir_config_service *service = &config->services[0];
	const struct weir_config_health_check *own =
		weir_config_check_of(service, &service->backends[1]);
	struct weir_config_checks at = {.service = service};
	char path[80];

	assert_ptr_equal(
		weir_config_check_of(service, &service->backends[0]), &service->health_check);
	assert_string_equal(own->url.path, "/up");
	assert_int_equal(own->interval_ms, 2000);
	assert_int_equal(own->port, 0);
	assert_string_equal(own->url.body_regex, "o+k");
	assert_string_equal(own->url.body, "");
	assert_true(weir_config_next_check(&at));
	assert_ptr_equal(at.check, &service->health_check);
	assert_int_equal(weir_config_check_path(config, &at, "", path, sizeof(path)), 1);
	assert_string_equal(path, "services[0].health_check");
	assert_true(weir_config_next_check(&at));
	assert_ptr_equal(at.check, own);
	assert_int_equal(weir_config_check_path(config, &at, ".path", path, sizeof(path)), 1);
	assert_string_equal(path, "services[0].backends[1].health_check.path");
	assert_false(weir_config_next_check(&at));
	weir_config_free(config);
	config = parse_good(
		CONFIG("", SERVICE("\"health_check\": {\"type\": \"http\", \"interval_ms\": 2000},",
				   BIND, OWN("\"type\": \"tcp\""))));
	assert_int_equal(config->services[0].backends[1].health_check->interval_ms, 1000);
	weir_config_free(config);
}

// The rules apply to the whole check, with the values of the service.
TEST(own_check_of_a_backend_has_the_same_rules) {
	expect_one_error(
		CONFIG("", SERVICE("\"health_check\": {\"type\": \"tcp\", \"interval_ms\": "
				   "300, \"timeout_ms\": 200},",
				   BIND, OWN("\"type\": \"tcp\", \"timeout_ms\": 400"))),
		"services[0].backends[1].health_check.timeout_ms",
		"timeout_ms (400) is above interval_ms (300, of the service)");
	expect_one_error(CONFIG("", SERVICE("\"health_check\": {\"type\": \"ping\"},", EVERY,
					    OWN("\"type\": \"tcp\""))),
		"services[0].backends[1].health_check", "add \"port\"");
	expect_one_error(CONFIG("", SERVICE("", BIND, OWN("\"type\": \"agent\""))),
		"services[0].backends[1].health_check", "add \"agent\": {} to the service");
	expect_one_error(CONFIG("", SERVICE("", BIND, OWN("\"type\": \"tcp\", \"path\": \"/\""))),
		"services[0].backends[1].health_check.path", "is not used by type \"tcp\"");
	expect_one_error(CONFIG("", SERVICE("", BIND, OWN("\"port\": 80"))),
		"services[0].backends[1].health_check", "\"type\" is missing");
}

// A key that the own check does not have can only be removed by its default.
TEST(own_check_of_a_backend_with_keys_of_the_service) {
	static const struct {
		const char *service, *own, *key, *why;
	} cases[] = {
		{"\"type\": \"https\", \"ca_file\": \"/a\"",
			"\"type\": \"https\", \"verify\": false", ".ca_file",
			"\"verify\": false; write null, because the check of the service"},
		{"\"type\": \"https\", \"verify\": false",
			"\"type\": \"https\", \"ca_file\": \"/a\"", ".ca_file",
			"false, of the service; remove it, or write \"verify\": true"},
		{"\"type\": \"http\", \"body\": \"x\"", "\"type\": \"http\", \"method\": \"HEAD\"",
			".body", "response to HEAD; write null, because the check of the service"},
		{"\"type\": \"http\", \"urls\": [{\"path\": \"/a\", \"body\": \"x\"}]",
			"\"type\": \"http\", \"method\": \"HEAD\"", ".urls[0]",
			"\"GET\", or write \"urls\": []"},
		{"\"type\": \"tcp\", \"retry_interval_ms\": 900",
			"\"type\": \"tcp\", \"interval_ms\": 500", ".retry_interval_ms",
			"900, of the service, is above interval_ms (500)"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char service[256], own[512], text[2048], path[80];

		snprintf(service, sizeof(service), "\"health_check\": {%s},", cases[i].service);
		snprintf(own, sizeof(own), OWN("%s"), cases[i].own);
		snprintf(text, sizeof(text), CONFIG("", SERVICE("%s", BIND, "%s")), service, own);
		snprintf(
			path, sizeof(path), "services[0].backends[1].health_check%s", cases[i].key);
		expect_one_error(text, path, cases[i].why);
	}
}

TEST(check_of_several_urls) {
	struct weir_config *config =
		parse_good(CONFIG("", SERVICE("\"health_check\": {\"type\": \"http\", \"urls\": "
					      "[{\"path\": \"/a\"}, {\"path\": \"/b\", "
					      "\"status_first\": 301, \"body\": \"b\"}]},",
					      BIND, OWN("\"type\": \"http\""))));
	const struct weir_config_health_check *check = &config->services[0].health_check;
	const struct weir_config_health_check *own = config->services[0].backends[1].health_check;

	assert_int_equal(check->url_count, 2);
	assert_string_equal(check->urls[0].path, "/a");
	assert_int_equal(check->urls[0].status_last, 399);
	assert_int_equal(check->urls[1].status_first, 301);
	assert_string_equal(check->urls[1].body, "b");
	assert_int_equal(own->url_count, 2); // a copy
	assert_ptr_not_equal(own->urls, check->urls);
	assert_string_equal(own->urls[1].path, "/b");
	weir_config_free(config);
}

TEST(urls_of_a_check_have_rules) {
	static const struct {
		const char *check, *path, *reason;
	} cases[] = {
		{"\"http\", \"urls\": [{\"path\": \"a\"}]", "urls[0].path", "must begin with"},
		{"\"http\", \"urls\": [{\"path\": \"/a\"}, {\"path\": \"/a\"}]", "urls[1].path",
			"\"/a\" is already a path of this check"},
		{"\"http\", \"urls\": [{\"path\": \"/\", \"body_regex\": \"(\"}]",
			"urls[0].body_regex", "is not a regular expression"},
		{"\"http\", \"urls\": [{\"path\": \"/\", \"status_first\": 400}]",
			"urls[0].status_first", "is above status_last (399, the default)"},
		{"\"http\", \"method\": \"HEAD\", \"urls\": [{\"path\": \"/\", \"body\": \"a\"}]",
			"urls[0]", "use method \"GET\""},
		{"\"tcp\", \"urls\": [{\"path\": \"/\"}]", "urls", "is not used by type \"tcp\""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char service[256], text[2048], path[80];

		snprintf(service, sizeof(service), "\"health_check\": {\"type\": %s},",
			cases[i].check);
		snprintf(text, sizeof(text), CONFIG("", SERVICE("%s", BIND, BACKEND)), service);
		snprintf(path, sizeof(path), "services[0].health_check.%s", cases[i].path);
		expect_one_error(text, path, cases[i].reason);
	}
}

TEST(health_check_needs_a_port) {
	weir_config_free(parse_good(CONFIG(
		"", SERVICE("\"health_check\": {\"type\": \"tcp\"},", RANGE(80, 90), BACKEND))));
	weir_config_free(parse_good(CONFIG("",
		SERVICE("\"health_check\": {\"type\": \"tcp\", \"port\": 80},", EVERY, BACKEND))));
	weir_config_free(parse_good(
		CONFIG("", SERVICE("\"health_check\": {\"type\": \"none\"},", EVERY, BACKEND))));
	expect_one_error(
		CONFIG("", SERVICE("\"health_check\": {\"type\": \"tcp\"},", EVERY, BACKEND)),
		"services[0].health_check", "add \"port\"");
}

TEST(agent_is_enabled_by_its_object) {
	struct weir_config *none = parse_good(ONE(""));
	struct weir_config *tcp = parse_good(ONE("\"agent\": {\"tcp\": true},"));
	struct weir_config *some = parse_good(ONE("\"agent\": {}, \"health_check\": {\"type\": "
						  "\"agent\", \"fall\": 4},"));
	const struct weir_config_agent *agent = &some->services[0].agent;

	assert_string_equal(none->agents.key_file, "/etc/weir/agent.keys");
	assert_int_equal(none->services[0].agent.port, 0);
	assert_int_equal(agent->port, 4777);
	assert_int_equal(agent->interval_ms, 500);
	assert_int_equal(agent->inactive_interval_ms, 10000);
	assert_int_equal(agent->timeout_ms, 400);
	assert_false(none->services[0].agent.tcp || agent->tcp);
	assert_true(tcp->services[0].agent.tcp);
	weir_config_free(tcp);
	assert_int_equal(some->services[0].health_check.type, WEIR_CHECK_AGENT);
	assert_int_equal(some->services[0].health_check.fall, 4);
	weir_config_free(none);
	weir_config_free(some);
}

TEST(outlier_ejection_is_enabled_by_its_object) {
	struct weir_config *none = parse_good(ONE(""));
	struct weir_config *some = parse_good(ONE("\"outlier_ejection\": {},"));
	struct weir_config *off = parse_good(ONE("\"outlier_ejection\": {\"enabled\": false},"));
	const struct weir_config_outlier_ejection *ejection = &some->services[0].outlier_ejection;

	assert_false(none->services[0].outlier_ejection.enabled);
	assert_false(off->services[0].outlier_ejection.enabled);
	assert_true(ejection->enabled);
	assert_int_equal(ejection->interval_ms, 10000);
	assert_int_equal(ejection->base_ejection_ms, 30000);
	assert_int_equal(ejection->max_ejection_ms, 300000);
	assert_int_equal(ejection->max_ejection_percent, 10);
	assert_int_equal(ejection->failure_percent, 85);
	assert_int_equal(ejection->minimum_flows, 50);
	assert_int_equal(ejection->consecutive_failures, 5);
	assert_int_equal(ejection->unreachable_flows, 3);
	weir_config_free(none);
	weir_config_free(some);
	weir_config_free(off);
}

TEST(flow_stealing_is_enabled_by_its_object) {
	struct weir_config *none = parse_good(ONE("\"agent\": {},"));
	struct weir_config *some = parse_good(ONE("\"agent\": {}, \"steal\": {},"));
	struct weir_config *off = parse_good(ONE("\"steal\": {\"enabled\": false},"));
	const struct weir_config_steal *steal = &some->services[0].steal;

	assert_false(none->services[0].steal.enabled);
	assert_false(off->services[0].steal.enabled);
	assert_true(steal->enabled);
	assert_int_equal(steal->after_ms, 500);
	assert_int_equal(steal->per_second, 200);
	weir_config_free(none);
	weir_config_free(some);
	weir_config_free(off);
}

TEST(same_backend_name_in_two_services_is_valid) {
	struct weir_config *config = parse_good(
		CONFIG("", SERVICE("", BIND, BACKEND) ", {\"name\": \"api\", \"binds\": [" RANGE(
				   81, 82) "], \"backends\": [" BACKEND "]}"));

	assert_int_equal(config->service_count, 2);
	weir_config_free(config);
}

TEST(three_backends_of_one_name_give_two_errors) {
	static const char text[] = CONFIG("", SERVICE("", BIND, BACKEND ", " BACKEND ", " BACKEND));
	struct weir_config *config;
	struct weir_config_errors errors;

	assert_int_equal(weir_config_parse(text, strlen(text), &config, &errors), -22);
	assert_int_equal(errors.count, 2);
	assert_string_equal(errors.error[0].path, "services[0].backends[1].name");
	assert_string_equal(errors.error[1].path, "services[0].backends[2].name");
	weir_config_errors_fini(&errors);
}

TEST(lines_of_services_and_backends) {
	struct weir_config *config = parse_good("{" PORTS ", \"services\": [\n" SERVICE("\n", BIND,
		"\n" BACKEND ",\n\n{\"name\": \"web-2\", \"address\": \"10.0.0.12\"}") "]}");

	assert_int_equal(config->services[0].line, 2);
	assert_int_equal(config->services[0].backends[0].line, 4);
	assert_int_equal(config->services[0].backends[1].line, 6);
	weir_config_free(config);
}
