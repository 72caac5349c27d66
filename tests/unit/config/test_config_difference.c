// SPDX-License-Identifier: BSD-3-Clause
#include <time.h>

#include "config_difference.h"
#include "config_lab.h"

// Writes the differences of two configurations to ret, one per line.
static void lines_of(const char *from, const char *to, char *ret, size_t bytes) {
	struct weir_config *before = parse_good(from), *after = parse_good(to);
	struct weir_difference difference;
	size_t used = 0;

	assert_int_equal(weir_config_compare(before, after, &difference), 0);
	ret[0] = '\0';
	for (uint32_t i = 0; i < difference.count && used < bytes; i++) {
		char line[2048];

		used += (size_t)snprintf(ret + used, bytes - used, "%s\n",
			weir_change_format(&difference.change[i], line, sizeof(line)));
	}
	weir_difference_fini(&difference);
	weir_config_free(before);
	weir_config_free(after);
}

#define TOP "{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": ["
#define WEB(bind, rest, backends) \
	"{\"name\": \"web\", \"binds\": [" bind "]" rest ", \"backends\": [" backends "]}"
#define BIND6 \
	"{\"address\": \"2001:db8::10\", \"protocol\": \"udp\", \"port_first\": 10, " \
	"\"port_last\": 20}"
#define ANY "{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 0}"
#define ONE "{\"name\": \"web-1\", \"address\": \"10.0.0.11\"}"
#define TWO "{\"name\": \"web-2\", \"address\": \"10.0.0.12\"}"
#define URLS(status) \
	", \"health_check\": {\"type\": \"http\", \"urls\": [{\"path\": \"/b\", " \
	"\"status_first\": " status "}]}"
#define TWO_URLS(first, second) \
	", \"health_check\": {\"type\": \"http\", \"urls\": [{\"path\": \"/" first "\"}, " \
	"{\"path\": \"/" second "\", \"status_first\": 301}]}"
#define OWN(type) \
	"{\"name\": \"web-2\", \"address\": \"10.0.0.12\", \"health_check\": {\"type\": " type "}" \
	"}"
#define AUTO(n) "{\"name\": \"web-" n "\", \"address\": \"10.0.0.1" n "\", \"weight\": \"auto\"}"
#define BASE TOP WEB(BIND, "", ONE ", " TWO) "]}"

#define NOTIFY(words, gcu) \
	CONFIG("\"notify\": {\"command\": [\"/x\", " words \
	       "]}, \"gcu\": [{\"cpu\": \"model\", \"gcu\": " gcu "}], ", \
		"")
#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define LONG "\"" HUNDRED HUNDRED "\", \"" HUNDRED HUNDRED "\", \"" HUNDRED HUNDRED "\""
#define LONG_WORDS HUNDRED HUNDRED " " HUNDRED HUNDRED " " HUNDRED HUNDRED

struct row {
	const char *from, *to, *lines;
};

static const struct row rows[] = {
	{BASE, BASE, ""},
	{BASE, TOP WEB(BIND, "", TWO ", " ONE) "]}", ""}, // order does not matter
	{BASE, TOP WEB(BIND, "", ONE) "]}",
		"remove service web backend web-2: 10.0.0.12 weight 100\n"},
	{TOP WEB(BIND, "", ONE) "]}", BASE,
		"add service web backend web-2: 10.0.0.12 weight 100\n"},
	{BASE,
		TOP WEB(BIND, "",
			ONE
			", {\"name\": \"web-2\", \"address\": \"10.0.0.99\", \"weight\": 7}") "]}",
		"change service web backend web-2 address: 10.0.0.12 -> 10.0.0.99\n"
		"change service web backend web-2 weight: 100 -> 7\n"},
	{BASE,
		TOP WEB(BIND, "",
			ONE ", {\"name\": \"web-2\", \"address\": \"10.0.0.12\", "
			    "\"forwarding\": \"gre\"}") "]}",
		"change service web backend web-2 forwarding: none -> gre\n"},
	{TOP WEB(BIND, "", ONE ", " TWO) "]}",
		TOP WEB(BIND, ", \"forwarding\": \"gre\", \"gre_key\": 7", ONE ", " TWO) "]}",
		"change service web forwarding: ipip -> gre\n"
		"change service web gre_key: none -> 7\n"},
	{"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", \"vlan\": 7}], \"services\": "
	 "[]}",
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": []}",
		"change port wan vlan: 7 -> none (needs a restart of weir-dataplane)\n"},
	{BASE, TOP WEB(BIND6, "", ONE ", " TWO) "]}",
		"remove service web bind tcp 198.51.100.10:80\n"
		"add service web bind udp [2001:db8::10]:10-20\n"},
	{BASE, TOP WEB(ANY, "", ONE ", " TWO) "]}",
		"remove service web bind tcp 198.51.100.10:80\n"
		"add service web bind tcp 198.51.100.10:*\n"},
	{BASE,
		TOP WEB(BIND,
			", \"table_size\": 251, \"panic_threshold_percent\": 10, "
			"\"on_backend_down\": \"reset\", "
			"\"drain\": {\"at_deadline\": \"drop\"}",
			ONE ", " TWO) "]}",
		"change service web table_size: 65537 -> 251\n"
		"change service web panic_threshold_percent: 50 -> 10\n"
		"change service web on_backend_down: keep -> reset\n"
		"change service web drain at_deadline: keep -> drop\n"},
	{BASE,
		TOP WEB(BIND, ", \"health_check\": {\"type\": \"tcp\", \"interval_ms\": 2000}",
			ONE ", " TWO) "]}",
		"change service web health_check type: none -> tcp\n"
		"change service web health_check interval_ms: 1000 -> 2000\n"},
	{TOP WEB(BIND, URLS("200"), ONE) "]}", TOP WEB(BIND, URLS("301"), ONE) "]}",
		"change service web health_check url /b status_first: 200 -> 301\n"},
	{TOP WEB(BIND, ", \"health_check\": {\"type\": \"http\"}", ONE) "]}",
		TOP WEB(BIND, URLS("200"), ONE) "]}", "add service web health_check url /b\n"},
	{TOP WEB(BIND, TWO_URLS(HUNDRED "1", HUNDRED "2"), ONE) "]}",
		TOP WEB(BIND, TWO_URLS(HUNDRED "1", HUNDRED "2"), ONE) "]}", ""},
	{TOP WEB(BIND, TWO_URLS("a", HUNDRED "2"), ONE) "]}",
		TOP WEB(BIND, TWO_URLS("a", HUNDRED "3"), ONE) "]}",
		"remove service web health_check url /" HUNDRED "2\n"
		"add service web health_check url /" HUNDRED "3\n"},
	{TOP WEB(BIND, TWO_URLS("a", "b\", \"status_last\": 301, \"body\": \"b"), ONE) "]}",
		TOP WEB(BIND,
			", \"health_check\": {\"type\": \"http\", \"urls\": [{\"path\": \"/b\", "
			"\"status_first\": 301, \"status_last\": 301, \"body\": \"b\"}, "
			"{\"path\": \"/a\"}]}",
			ONE) "]}",
		"change service web health_check url number 0: /a -> /b\n"
		"change service web health_check url number 1: /b -> /a\n"},
	{BASE, TOP WEB(BIND, "", ONE ", " OWN("\"tcp\", \"port\": 81")) "]}",
		"add service web backend web-2 health_check: type tcp, port 81\n"},
	{TOP WEB(BIND, "", ONE ", " OWN("\"tcp\", \"port\": 81")) "]}",
		TOP WEB(BIND, "", ONE ", " OWN("\"tcp\", \"port\": 82")) "]}",
		"change service web backend web-2 health_check port: 81 -> 82\n"},
	{TOP WEB(BIND, "", ONE ", " OWN("\"ping\"")) "]}", BASE,
		"remove service web backend web-2 health_check: type ping\n"},
	{BASE,
		TOP WEB(BIND,
			", \"health_check\": {\"type\": \"tcp\", \"send\": \"A\\\"\\r\\n\", "
			"\"expect_hex\": \"00 FF\", \"match\": \"substring\"}",
			ONE ", " TWO) "]}",
		"change service web health_check type: none -> tcp\n"
		"change service web health_check send: none -> A\\\"\\r\\n\n"
		"change service web health_check expect_hex: none -> 00ff\n"
		"change service web health_check match: prefix -> substring\n"},
	{BASE,
		TOP WEB(BIND,
			", \"policy\": {\"name\": \"interleaved-weighted-round-robin\", "
			"\"statistic\": \"median\", \"window\": 10, \"measurement\": \"busy\", "
			"\"service_time\": \"reported\", \"stale_ms\": 5000, \"rounds\": "
			"\"documented\"}, \"workload\": \"requests\", \"flow_control\": "
			"{\"when_exhausted\": \"reject\"}",
			ONE ", " TWO) "]}",
		"change service web policy: maglev -> interleaved-weighted-round-robin\n"
		"change service web policy statistic: average -> median\n"
		"change service web policy window: 386 -> 10\n"
		"change service web policy measurement: execution -> busy\n"
		"change service web policy service_time: flow -> reported\n"
		"change service web policy stale_ms: 180000 -> 5000\n"
		"change service web policy rounds: incremental -> documented\n"
		"change service web workload: connections -> requests\n"
		"change service web flow_control max_active_flows: 0 -> 100\n"
		"change service web flow_control when_exhausted: spill -> reject\n"},
	{BASE, TOP WEB(BIND, ", \"agent\": {}", ONE ", " TWO) "]}",
		"add service web agent: port 4777, interval_ms 500, inactive_interval_ms 10000, "
		"timeout_ms 400, tcp false\n"},
	{TOP WEB(BIND, ", \"agent\": {\"interval_ms\": 900}", ONE) "]}",
		TOP WEB(BIND, "", ONE) "]}",
		"remove service web agent: port 4777, interval_ms 900, inactive_interval_ms 10000, "
		"timeout_ms 400, tcp false\n"},
	{TOP WEB(BIND, ", \"agent\": {\"interval_ms\": 900}", ONE) "]}",
		TOP WEB(BIND, ", \"agent\": {\"interval_ms\": 901}", ONE) "]}",
		"change service web agent interval_ms: 900 -> 901\n"},
	{TOP WEB(BIND, ", \"agent\": {}", ONE) "]}",
		TOP WEB(BIND, ", \"agent\": {\"tcp\": true}", ONE) "]}",
		"change service web agent tcp: false -> true\n"},
	{TOP WEB(BIND, ", \"agent_check\": {\"port\": 99}", ONE) "]}", TOP WEB(BIND, "", ONE) "]}",
		"remove service web agent_check: port 99, interval_ms 2000, timeout_ms "
		"1000\n"},
	{TOP WEB(BIND, ", \"agent\": {}", ONE ", " TWO) "]}",
		TOP WEB(BIND, ", \"agent\": {}", AUTO("1") ", " AUTO("3")) "]}",
		"remove service web backend web-2: 10.0.0.12 weight 100\n"
		"change service web backend web-1 weight: 100 -> auto\n"
		"add service web backend web-3: 10.0.0.13 weight auto\n"},
	{TOP WEB(BIND, ", \"policy\": {\"name\": \"weighted-round-robin\"}", ONE) "]}",
		TOP WEB(BIND,
			", \"policy\": {\"name\": \"weighted-round-robin\", \"weights\": "
			"\"reported\"}",
			ONE) "]}",
		"change service web policy weights: configured -> reported\n"},
	{TOP WEB(BIND,
		 ", \"policy\": {\"name\": \"weighted-round-robin\", \"weights\": \"reported\"}",
		 ONE) "]}",
		TOP WEB(BIND,
			", \"policy\": {\"name\": \"weighted-round-robin\", \"weights\": "
			"\"reported\", \"requests\": \"successful\", \"error_penalty\": 0.5, "
			"\"update_ms\": 5000}",
			ONE) "]}",
		"change service web policy requests: all -> successful\n"
		"change service web policy error_penalty: 1 -> 0.5\n"
		"change service web policy update_ms: 1000 -> 5000\n"},
	{TOP WEB(BIND, ", \"policy\": {\"name\": \"least-loaded\"}", ONE) "]}",
		TOP WEB(BIND,
			", \"policy\": {\"name\": \"least-loaded\", \"error_window_ms\": 100}",
			ONE) "]}",
		"change service web policy error_window_ms: 0 -> 100\n"},
	{BASE,
		TOP WEB(BIND,
			", \"subset\": {\"algorithm\": \"deterministic\", \"size\": 20, \"mode\": "
			"\"exact\", \"client\": \"worker\", \"salt\": 7}",
			ONE ", " TWO) "]}",
		"change service web subset algorithm: none -> deterministic\n"
		"change service web subset size: 0 -> 20\n"
		"change service web subset mode: spread -> exact\n"
		"change service web subset client: group -> worker\n"
		"change service web subset salt: 0 -> 7\n"},
	{"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": []}",
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": [], "
		"\"instance\": {\"client_id\": 1, \"clients\": 4, \"member\": 2, \"members\": 3}}",
		"change instance client_id: 0 -> 1\n"
		"change instance clients: 1 -> 4\n"
		"change instance member: 0 -> 2\n"
		"change instance members: 1 -> 3\n"},
	// A difference must not contain the seed: differences are in the log and in the audit,
	// which users without access to the file can read.
	{"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": [], "
	 "\"instance\": {\"hash_seed\": \"0xff\"}}",
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": [], "
		"\"instance\": {\"hash_seed\": \"0xfe\"}}",
		"change instance hash_seed: hidden (needs a restart of "
		"weir-dataplane)\n"},
	{NOTIFY("\"a b\", \"\"", "1.2345671"), NOTIFY("\"a\", \"b\", \"\"", "1.2345674"),
		"change notify command: /x \"a b\" \"\" -> /x a b \"\"\n"
		"change gcu model gcu: 1.2345671 -> 1.2345674\n"},
	{NOTIFY(LONG ", \"a\"", "1"), NOTIFY(LONG ", \"b\"", "1"),
		"change notify command: /x " LONG_WORDS " a -> /x " LONG_WORDS " b\n"},
	{BASE, TOP "]}", "remove service web: 1 bind, 2 backends, maglev\n"},
	{TOP "]}", BASE, "add service web: 1 bind, 2 backends, maglev\n"},
	{"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": []}",
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", \"mtu\": 9000, "
		"\"gateway_mac\": \"02:00:00:00:00:01\", \"source_ipv4\": \"192.0.2.1\"}], "
		"\"services\": []}",
		"change port wan mtu: 1500 -> 9000 (needs a restart of weir-dataplane)\n"
		"change port wan gateway_mac: none -> 02:00:00:00:00:01\n"
		"change port wan source_ipv4: none -> 192.0.2.1\n"},
	{"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": []}",
		"{\"ports\": [{\"name\": \"lan\", \"device\": \"net_null0\", \"mtu\": 9000, "
		"\"gateway_mac\": \"02:00:00:00:00:01\"}], \"services\": []}",
		"change port lan name: wan -> lan (needs a restart of weir-dataplane)\n"
		"change port lan mtu: 1500 -> 9000 (needs a restart of weir-dataplane)\n"
		"change port lan gateway_mac: none -> 02:00:00:00:00:01 (needs a restart of "
		"weir-dataplane)\n"},
	{"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": []}",
		"{\"ports\": [{\"name\": \"lan\", \"device\": \"net_null1\"}], \"services\": []}",
		"remove port wan: net_null0 (needs a restart of weir-dataplane)\n"
		"add port lan: net_null1 (needs a restart of weir-dataplane)\n"},
	{"{\"ports\": [{\"name\": \"a\", \"device\": \"net_null0\"}, "
	 "{\"name\": \"b\", \"device\": \"net_null1\"}], \"services\": []}",
		"{\"ports\": [{\"name\": \"b\", \"device\": \"net_null1\"}, "
		"{\"name\": \"a\", \"device\": \"net_null0\"}], \"services\": []}",
		"change port number 0: a -> b (needs a restart of weir-dataplane)\n"
		"change port number 1: b -> a (needs a restart of weir-dataplane)\n"},
	{"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}], \"services\": []}",
		"{\"ports\": [{\"name\": \"lan\", \"device\": \"net_null0\"}], \"services\": [], "
		"\"workers\": {\"cores\": [1, 2], \"idle\": \"poll\"}, "
		"\"instance\": {\"name\": \"lb-7\"}, "
		"\"flow_table\": {\"flows_per_worker\": 2048, \"timeout_ms\": {\"udp\": 100}}, "
		"\"segment\": {\"huge_pages\": true}}",
		"change instance name: weir -> lb-7 (needs a restart of weir-dataplane)\n"
		"change port lan name: wan -> lan (needs a restart of weir-dataplane)\n"
		"change workers cores: 0 -> 1,2 (needs a restart of weir-dataplane)\n"
		"change workers idle: yield -> poll (needs a restart of weir-dataplane)\n"
		"change flow_table flows_per_worker: 1048576 -> 2048 (needs a restart of "
		"weir-dataplane)\n"
		"change flow_table timeout_ms udp: 30000 -> 100 (needs a restart of "
		"weir-dataplane)\n"
		"change segment huge_pages: false -> true (needs a restart of weir-dataplane)\n"},
};

TEST(difference_lists_every_change) {
	char lines[8192];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		lines_of(rows[i].from, rows[i].to, lines, sizeof(lines));
		if (strcmp(lines, rows[i].lines) != 0) {
			fail_msg("row %zu:\n%sexpected:\n%s", i, lines, rows[i].lines);
		}
	}
}

TEST(difference_json_has_only_what_applies) {
	struct weir_config *before = parse_good(BASE);
	struct weir_config *after = parse_good(TOP WEB(BIND, ", \"table_size\": 251", ONE) "]}");
	struct weir_difference difference;
	json_t *json, *expected;

	assert_int_equal(weir_config_compare(before, after, &difference), 0);
	json = weir_difference_json(&difference);
	expected = json_pack("[{s:s, s:s, s:s, s:s}, {s:s, s:s, s:s}]", "kind", "change", "what",
		"service web table_size", "from", "65537", "to", "251", "kind", "remove", "what",
		"service web backend web-2", "from", "10.0.0.12 weight 100");
	assert_non_null(expected);
	assert_true(json_equal(json, expected));
	json_decref(json);
	json_decref(expected);
	weir_difference_fini(&difference);
	weir_config_free(before);
	weir_config_free(after);
}

// Returns a configuration with n backends, numbered from `first`. The test compares two lists that
// have half of their backends in common.
static struct weir_config *many(uint32_t n, uint32_t first) {
	size_t room = 256 + n * 96, used;
	char *text = malloc(room);
	struct weir_config *config;

	used = (size_t)snprintf(
		text, room, TOP "{\"name\": \"web\", \"binds\": [" BIND "], \"backends\": [");
	for (uint32_t i = first; i < first + n; i++) {
		used += (size_t)snprintf(text + used, room - used,
			"%s{\"name\": \"b-%u\", \"address\": \"10.%u.%u.%u\"}",
			i > first ? ", " : "", i, i >> 16, i >> 8 & 255, i & 255);
	}
	snprintf(text + used, room - used, "]}]}");
	config = parse_good(text);
	free(text);
	return config;
}

TEST(difference_of_10000_backends_is_fast) {
	struct weir_config *before = many(10000, 1), *after = many(10000, 5001);
	struct weir_difference difference;
	clock_t start = clock();

	assert_int_equal(weir_config_compare(before, after, &difference), 0);
	assert_int_equal(difference.count, 10000);
	// The comparison takes a few ms. A comparison of each backend with all others would take
	// seconds.
	assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 1.0);
	weir_difference_fini(&difference);
	weir_config_free(before);
	weir_config_free(after);
}
