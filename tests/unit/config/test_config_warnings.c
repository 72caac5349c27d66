// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of warnings: settings that are allowed but probably unintended are accepted with a warning.
#include <time.h>

#include "config_lab.h"

#define SEED "\"instance\": {\"hash_seed\": \"0x0123456789abcdef\"},"
#define NAMED(name, address, rest) "{\"name\": \"" name "\", \"address\": \"" address "\"" rest "}"
#define UDP_BIND "{\"address\": \"198.51.100.11\", \"protocol\": \"udp\", \"port\": 80}"
#define OTHER_BIND "{\"address\": \"198.51.100.11\", \"protocol\": \"tcp\", \"port\": 80}"

// SERVICE of config_lab.h with a last key that disables health checks.
#define UNCHECKED(extra, binds, backends) \
	"{\"name\": \"web\"," extra "\"binds\": [" binds "], \"backends\": [" backends \
	"], " NO_CHECK "}"
#define NO_CHECK "\"health_check\": {\"type\": \"none\"}"
#define NEVER_CHECKED(all) \
	"has no health check" all ": a dead backend keeps getting flows; add " \
	"\"health_check\" or \"agent\", or \"health_check\": {\"type\": \"none\"} if this is " \
	"intended\n"

struct expected {
	const char *text;
	const char *warnings; // each is "line:column: path: reason"
};

#define PUBLIC_SEED \
	"instance.hash_seed: is the default, which is public: clients can direct all flows to " \
	"one backend; set \"0x\" followed by the output of \"openssl rand -hex 8\", the same " \
	"on all instances that share VIPs; a restart with another hash_seed breaks open flows: " \
	"first drain or withdraw this instance\n"
#define ZERO_WEIGHTS "all weights are 0: the service gets no new flows; set a weight above 0\n"

#define OWN_ADDRESS \
	"backends drop packets from their own addresses; use addresses that no " \
	"backend has\n"
// A port with this outer source address, and a service whose only backend has this address.
#define SOURCE(source, address) \
	"{" SEED \
	" \"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", \"source_ipv4\": \"" source \
	"\"}], \"services\": [" UNCHECKED("", BIND, NAMED("a", address, "")) "]}"

// A port with these keys, and a service with these backends.
#define SOURCES(keys, backends) \
	"{" SEED "\n \"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\", " keys \
	"}],\n\"services\": [\n" UNCHECKED("", BIND, backends) "]}"
#define L2 NAMED("a", "10.0.0.1", ", \"forwarding\": \"l2\"")
#define IPIP(address) NAMED("b", address, "")
#define UNUSED_SOURCE "is not used, because every backend has forwarding \"l2\"; remove it\n"
#define NOT_ITS_MAC \
	"has backends with forwarding \"l2\", but every port sends all packets to its " \
	"gateway_mac instead of the backend's MAC address: these backends get no packets; " \
	"remove gateway_mac from the port on their link, or use another forwarding\n"

#define TWO_BACKENDS NAMED("a", "10.0.0.1", "") ", " NAMED("b", "10.0.0.2", "")
#define FORGETS_AFTER(ms) SEED "\"flow_table\": {\"timeout_ms\": {\"syn_seen\": " ms "}},"
#define STEALS_AFTER(ms) "\n\"agent\": {}, \"steal\": {\"after_ms\": " ms "},"
#define NEVER_MOVED(ms) \
	"ms is not below flow_table.timeout_ms.syn_seen (" ms \
	" ms): connections time out before they can be moved; lower after_ms or raise " \
	"syn_seen\n"

#define DEVICES(device, exception) \
	"{" SEED " \"ports\": [{\"name\": \"wan\",\n\"device\": \"" device \
	"\",\n\"exception\": \"" exception \
	"\"}], \"services\": [" UNCHECKED("", BIND, BACKEND) "]}"
#define NO_DRIVER(name) \
	"\"" name "\" does not begin with the name of a known DPDK driver, so weir-dataplane " \
	"would probably " \
	"not start; "

static const struct expected cases[] = {
	{"{" SEED PORTS ", \"services\": [" UNCHECKED(
		 "\"quorum\": 2, \"hysteresis\": 1,", BIND, TWO_BACKENDS) "]}",
		"1:139: services[0].quorum: the service needs 3 eligible backends to become up, "
		"but has only 2 backends: it is always down; use a smaller quorum, or add "
		"backends\n"},
	{"{" SEED PORTS ", \"services\": [" UNCHECKED("\"quorum\": 2,", BIND, TWO_BACKENDS) "]}",
		""},
	{"{" SEED PORTS ", \"services\": [" UNCHECKED("\"quorum\": 2,", BIND, BACKEND) "]}",
		"1:139: services[0].quorum: the service needs 2 eligible backends to become up, "
		"but has only 1 backend: it is always down; use a smaller quorum, or add "
		"backends\n"},
	{"{" SEED PORTS ", \"services\": [" UNCHECKED("\"quorum\": 2,", BIND,
		 BACKEND ", " NAMED("b", "10.0.0.2", ", \"backup\": true")) "]}",
		"1:139: services[0].quorum: the service needs 2 eligible backends to become up, "
		"but has only 1 primary backend, and backups count only while they get new flows; "
		"use a smaller quorum, or add primary backends\n"},
	{DEVICES("net_afxdp0,iface=eth0", "net_tpa3,iface=weir0"),
		"2:11: ports[0].device: " NO_DRIVER(
			"net_afxdp0") "did you mean \"net_af_xdp0\"?\n"
				      "3:14: ports[0].exception: " NO_DRIVER(
					      "net_tpa3") "did you mean \"net_tap3\"?\n"},
	{DEVICES("net_e1000,x=0000:01:00.0", "virtio_user0,path=/dev/vhost-net"),
		"2:11: ports[0].device: " NO_DRIVER(
			"net_e1000") "see \"device\" in the reference\n"},
	{DEVICES("0000:01:00.0", "net_tap0,iface=weir0"), ""},
	{CONFIG(SEED, UNCHECKED("", BIND, BACKEND)), ""},
	{CONFIG("\n", ""), // no warning about the seed, because no service uses it
		"2:64: services: is empty: nothing is forwarded, and \"weirctl status\" "
		"reports CRITICAL; add a service\n"},
	// Without a health check, Weir cannot detect that a backend is down.
	{CONFIG(SEED "\n", SERVICE("", BIND, BACKEND)), "2:65: services[0]: " NEVER_CHECKED("")},
	{CONFIG(SEED "\n",
		 UNCHECKED("", BIND, BACKEND) ",\n{\"name\": \"a\", \"binds\": [" OTHER_BIND
					      "], \"backends\": [" BACKEND
					      "]},\n{\"name\": \"b\", \"binds\": [" UDP_BIND
					      "], \"backends\": [" BACKEND "]}"),
		"3:1: services[1]: " NEVER_CHECKED(" (2 services have none)")},
	{CONFIG(SEED, SERVICE("\"agent\": {},", BIND, BACKEND)), ""},
	{CONFIG(SEED, SERVICE("\"agent_check\": {\"port\": 9777},", BIND, BACKEND)), ""},
	{CONFIG(SEED, SERVICE("\"outlier_ejection\": {},", BIND, BACKEND)), ""},
	// The default seed, if the key is omitted or has this value.
	{CONFIG("", UNCHECKED("", BIND, BACKEND)), "1:1: " PUBLIC_SEED},
	{"{\n\"instance\": {\"name\": \"lb\"}, " PORTS
	 ", \"services\": [" UNCHECKED("", BIND, BACKEND) "]}",
		"2:13: " PUBLIC_SEED},
	{"{\n\"instance\": {\"hash_seed\":\n  \"0x5765697253656564\"}, " PORTS
	 ", \"services\": [" UNCHECKED("", BIND, BACKEND) "]}",
		"3:3: " PUBLIC_SEED},
	// All weights are 0. If one weight is above 0, there is no warning.
	{CONFIG(SEED "\n", UNCHECKED("\n", BIND,
				   NAMED("a", "10.0.0.1", ", \"weight\": 0") ", " NAMED(
					   "b", "10.0.0.2", ", \"weight\": 0"))),
		"3:85: services[0].backends: " ZERO_WEIGHTS},
	{CONFIG(SEED, UNCHECKED("", BIND,
			      NAMED("a", "10.0.0.1", ", \"weight\": 0") ", " NAMED(
				      "b", "10.0.0.2", ", \"weight\": 1"))),
		""},
	// Only backups, and a key without backups.
	{CONFIG(SEED "\n", UNCHECKED("\n", BIND, NAMED("a", "10.0.0.1", ", \"backup\": true"))),
		"3:85: services[0].backends: every backend is a backup, so all backups are used: "
		"remove \"backup\", or add primary backends\n"},
	{CONFIG(SEED "\n", UNCHECKED("\n\"backup_below_percent\": 50,", BIND, TWO_BACKENDS)),
		"3:25: services[0].backup_below_percent: is not used, because no backend has "
		"\"backup\": true; remove it, or mark the backups\n"},
	{CONFIG(SEED, UNCHECKED("\"backup_below_percent\": 50,", BIND,
			      NAMED("a", "10.0.0.1", ", \"backup\": true") ", " NAMED(
				      "b", "10.0.0.2", ", \"backup\": false"))),
		""},
	// The same address twice in one service, in any notation. In two services it is valid.
	{CONFIG(SEED, UNCHECKED("", BIND,
			      "\n" NAMED("a", "2001:db8::1", "") ",\n" NAMED("b", "2001:db8::2",
				      "") ",\n" NAMED("c", "2001:DB8:0::1", ""))),
		"4:26: services[0].backends[2].address: 2001:db8::1 is also the address of backend "
		"\"a\" in line 2: the server gets the flows of both backends; keep one, with the "
		"sum of the weights\n"},
	{CONFIG(SEED, UNCHECKED("", BIND, BACKEND) ", {\"name\": \"other\", \"binds\": [" OTHER_BIND
						   "], \"backends\": [" BACKEND "], " NO_CHECK "}"),
		""},
	// Outer source addresses that are also addresses of backends: a backend drops packets from
	// its own address.
	{SOURCE("10.0.0.0/24", "10.0.0.1"),
		"1:115: ports[0].source_ipv4: 10.0.0.1 is the address of a backend: " OWN_ADDRESS},
	{SOURCE("10.0.0.1", "10.0.0.1"),
		"1:115: ports[0].source_ipv4: 10.0.0.1 is the address of a backend: " OWN_ADDRESS},
	{SOURCE("198.51.0.0/16", "10.0.0.1"),
		"1:115: ports[0].source_ipv4: 198.51.100.10 is the address of a VIP: " OWN_ADDRESS},
	{SOURCE("10.0.0.0/24", "10.0.1.0"), ""},
	{SOURCE("10.0.0.2", "10.0.0.3"), ""},
	{SOURCE("10.0.0.0/24", "a00:1::"), ""}, // begins with the bytes of 10.0.0.1
	// Backends with l2 get packets without an outer source address.
	{SOURCES("\"source_ipv4\": \"10.0.0.0/24\"", L2 ", " IPIP("10.0.0.2")),
		"2:66: ports[0].source_ipv4: 10.0.0.2 is the address of a backend: " OWN_ADDRESS},
	{SOURCES("\"source_ipv4\": \"10.0.0.0/30\"", L2 ", " IPIP("10.0.0.4")), ""},
	{SOURCES("\"source_ipv4\": \"198.51.100.10\"", L2 ", " IPIP("10.0.0.4")),
		"2:66: ports[0].source_ipv4: 198.51.100.10 is the address of a VIP: " OWN_ADDRESS},
	{SOURCES("\"source_ipv4\": \"10.0.0.0/30\"", L2),
		"2:66: ports[0].source_ipv4: " UNUSED_SOURCE},
	{SOURCES("\"source_ipv4\": \"198.51.100.10\", \"source_ipv6\": \"2001:db8::1\"", L2),
		"2:66: ports[0].source_ipv4: " UNUSED_SOURCE
		"2:98: ports[0].source_ipv6: " UNUSED_SOURCE},
	{SOURCES("\"gateway_mac\": \"02:00:00:00:00:01\"", IPIP("10.0.0.4") ", " L2),
		"4:1: services[0]: " NOT_ITS_MAC},
	{SOURCES("\"gateway_mac\": \"02:00:00:00:00:01\"", IPIP("10.0.0.4")), ""},
	{SOURCES("\"gateway_mac\": \"02:00:00:00:00:01\"}, {\"name\": \"lan\", \"device\": "
		 "\"net_null1\"",
		 L2),
		""},
	// An agent-check without a port connects to the port of the VIP, where the server itself
	// listens.
	{CONFIG(SEED, SERVICE("\n\"health_check\": {\"type\": \"agent-check\"},", BIND, BACKEND)),
		"2:17: services[0].health_check: has type \"agent-check\" and no port: the "
		"check connects to the port of the service (80); add \"port\"\n"},
	{CONFIG(SEED, SERVICE("\"health_check\": {\"type\": \"agent-check\", \"port\": 9777},",
			      BIND, BACKEND)),
		""},
	{CONFIG(SEED, SERVICE("\"health_check\": {\"type\": \"tcp\"},", BIND, BACKEND)), ""},
	// Half-open connections expire in the flow table before stealing is allowed to move them.
	{CONFIG(FORGETS_AFTER("5000"), UNCHECKED(STEALS_AFTER("5000"), BIND, TWO_BACKENDS)),
		"2:36: services[0].steal.after_ms: 5000 " NEVER_MOVED("5000")},
	// the default timeout of 5 s
	{CONFIG(SEED, UNCHECKED(STEALS_AFTER("60000"), BIND, TWO_BACKENDS)),
		"2:36: services[0].steal.after_ms: 60000 " NEVER_MOVED("5000")},
	{CONFIG(FORGETS_AFTER("500"),
		 UNCHECKED("\n\"agent\": {}, \"steal\": {},", BIND, TWO_BACKENDS)),
		"2:23: services[0].steal.after_ms: 500 " NEVER_MOVED("500")},
	{CONFIG(FORGETS_AFTER("5000"), UNCHECKED(STEALS_AFTER("4999"), BIND, TWO_BACKENDS)), ""},
	{CONFIG(FORGETS_AFTER("500"),
		 UNCHECKED("\"agent\": {}, \"steal\": {\"enabled\": false},", BIND, TWO_BACKENDS)),
		""},
	{CONFIG(FORGETS_AFTER("500"), UNCHECKED("", BIND, TWO_BACKENDS)), ""},
	{CONFIG(SEED, UNCHECKED("\n\"agent\": {}, \"steal\": {},", UDP_BIND, TWO_BACKENDS)),
		"2:23: services[0].steal: moves TCP connections, but the service has no TCP bind: "
		"remove \"steal\"\n"},
	{CONFIG(SEED, UNCHECKED("\"agent\": {}, \"steal\": {},", UDP_BIND ", " BIND, TWO_BACKENDS)),
		""},
	{CONFIG(SEED, UNCHECKED("\n\"agent\": {}, \"steal\": {},", BIND, BACKEND)),
		"2:23: services[0].steal: moves connections to other backends, but the service has "
		"only one backend: add a backend, or remove \"steal\"\n"},
	{CONFIG(SEED, UNCHECKED("\"agent\": {}, \"steal\": {\"enabled\": false},", BIND, BACKEND)),
		""},
	// Backends without flows can get stolen connections only if they report often enough
	// (inactive_interval_ms).
	{CONFIG(SEED, UNCHECKED("\n\"agent\": {\"inactive_interval_ms\": 60001}, \"steal\": {},",
			      BIND, TWO_BACKENDS)),
		"2:35: services[0].agent.inactive_interval_ms: 60001 ms is above 60000 ms: "
		"backends without flows report too rarely to get stolen connections; use "
		"a smaller value\n"},
	{CONFIG(SEED, UNCHECKED("\"agent\": {\"inactive_interval_ms\": 60000}, \"steal\": {},",
			      BIND, TWO_BACKENDS)),
		""},
	{CONFIG(SEED,
		 UNCHECKED("\"agent\": {\"inactive_interval_ms\": 60001},", BIND, TWO_BACKENDS)),
		""},
	// Warnings are in the order of the file.
	{CONFIG("", UNCHECKED("", BIND,
			    "\n" NAMED("a", "10.0.0.1", ", \"weight\": 0") ",\n" NAMED(
				    "b", "10.0.0.1", ", \"weight\": 0"))),
		"1:1: " PUBLIC_SEED "1:165: services[0].backends: " ZERO_WEIGHTS
		"3:26: services[0].backends[1].address: 10.0.0.1 is also the address of backend "
		"\"a\" in line 2: the server gets the flows of both backends; keep one, with the "
		"sum of the weights\n"},
};

TEST(warnings_have_place_reason_and_remedy) {
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = NULL;
		struct weir_config_errors errors;
		char found[2048] = "";
		size_t used = 0;

		assert_int_equal(
			weir_config_parse(cases[i].text, strlen(cases[i].text), &config, &errors),
			0);
		assert_int_equal(errors.count, 0);
		for (uint32_t j = 0; j < errors.warning_count; j++) {
			const struct weir_config_error *w = &errors.warning[j];

			used += (size_t)snprintf(found + used, sizeof(found) - used,
				"%d:%d: %s: %s\n", w->line, w->column, w->path, w->reason);
		}
		if (strcmp(found, cases[i].warnings) != 0) {
			fail_msg("case %zu:\n%sexpected:\n%s", i, found, cases[i].warnings);
		}
		weir_config_errors_fini(&errors);
		weir_config_free(config);
	}
}

// A file with errors gives no warnings, because the errors must be corrected first.
TEST(a_file_with_errors_has_no_warnings) {
	static const char text[] = CONFIG("\"x\": 1,", UNCHECKED("", BIND, BACKEND));
	struct weir_config *config = NULL;
	struct weir_config_errors errors;

	assert_int_equal(weir_config_parse(text, strlen(text), &config, &errors), -22);
	assert_int_equal(errors.count, 1);
	assert_int_equal(errors.warning_count, 0);
	weir_config_errors_fini(&errors);
}

// Returns a configuration in which all backends have the same address. The caller frees it.
static char *with_backends_of_one_address(int backends, const char *address, const char *seed) {
	size_t room = (size_t)backends * 64 + 1000, used;
	char *text = malloc(room);

	assert_non_null(text);
	used = (size_t)snprintf(text, room,
		"{%s" PORTS ", \"segment\": {\"max_backends\": 65534}, \"services\": [{\"name\": "
		"\"web\", \"table_size\": 655373, \"binds\": [" BIND "], \"backends\": [",
		seed);
	for (int i = 0; i < backends; i++) {
		used += (size_t)snprintf(text + used, room - used,
			"%s\n{\"name\": \"b%d\", \"address\": \"%s\"}", i > 0 ? "," : "", i,
			address);
	}
	snprintf(text + used, room - used, "], " NO_CHECK "}]}");
	return text;
}

TEST(too_many_warnings_are_counted) {
	char *text = with_backends_of_one_address(1101, "10.0.0.1", SEED);
	struct weir_config_errors errors;
	struct weir_config *config = NULL;

	assert_int_equal(weir_config_parse(text, strlen(text), &config, &errors), 0);
	assert_int_equal(errors.warning_count, 1000);
	assert_string_equal(errors.warning[999].reason,
		"101 more warnings not shown; fix the entries above first");
	weir_config_errors_fini(&errors);
	weir_config_free(config);
	free(text);
}

// Reading a file blocks the event loop of weir-control, so it must not take seconds, whatever the
// file contains.
TEST(largest_file_is_read_fast_with_any_errors) {
	static const struct {
		const char *address;
		int result;
		const char *last;
	} files[] = {
		{"10.0.0.1", 0, "64535 more warnings not shown; fix the entries above first"},
		{"198.51.100.10", -22,
			"64535 more errors not shown; fix the entries above first"}, // the VIP
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char *text = with_backends_of_one_address(65534, files[i].address, "");
		struct weir_config_errors errors;
		struct weir_config *config = NULL;
		clock_t begin = clock();

		assert_int_equal(
			weir_config_parse(text, strlen(text), &config, &errors), files[i].result);
		// Reading takes 0.2 s of CPU time; searching the position of every backend would
		// take 14 s.
		assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
		assert_string_equal(
			config != NULL ? errors.warning[999].reason : errors.error[999].reason,
			files[i].last);
		weir_config_errors_fini(&errors);
		weir_config_free(config);
		free(text);
	}
}
