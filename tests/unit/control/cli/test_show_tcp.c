// SPDX-License-Identifier: BSD-3-Clause
#include "show_lab.h"
#include "show_tcp.h"

#define FAMILY(connections, rtt, p99, percent, bytes, rate) \
	"{\"connections\": " #connections ", \"rtt_median_us\": " #rtt ", \"rtt_p99_us\": " #p99 \
	", \"retransmitted_percent\": " #percent ", \"sent_bytes_per_second\": " #bytes \
	", \"delivery_rate_bytes_per_second\": " #rate "}"

static void show(const struct weir_cli *cli, json_t *result) {
	weir_show_tcp(cli->out, result, 0);
}

TEST(tcp_has_a_row_for_each_family_and_lines_up) {
	expect_shown(show, NULL,
		"[{\"service\": \"web\", \"name\": \"web-1\", \"tcp\": {\"age_ms\": 240, "
		"\"partial\": false, \"ipv4\": " FAMILY(12, 21034, 1187400, 0.18, 5121870.4,
			2310144) ", \"ipv6\": " FAMILY(3, 421, 9, 100.0, 0.0,
			null) "}}, "
			      "{\"service\": \"web\", \"name\": \"web-10\", \"tcp\": {\"age_ms\": "
			      "61000, \"partial\": true, \"ipv4\": " FAMILY(65536, null, null, null,
				      null,
				      1e12) ", \"ipv6\": null}}, "
					    "{\"service\": \"dns\", \"name\": \"a\", \"tcp\": "
					    "null}, "
					    "{\"service\": \"web\", \"name\": \"web-3\", \"tcp\": "
					    "{\"age_ms\": null, \"partial\": null, \"ipv4\": null, "
					    "\"ipv6\": "
					    "null}}]",
		"SERVICE  BACKEND  CLIENTS  CONNECTIONS  RTT-MS  P99-MS  RETRANS-%  SENT-MBIT/S  "
		"RATE-MBIT/S    AGE\n"
		"web      web-1    ipv4              12    21.0    1187      0.180         41.0  "
		"       18.5   0.2s\n"
		"web      web-1    ipv6               3   0.421  0.0090        100          0.0  "
		"          -   0.2s\n"
		"web      web-10   ipv4          65536+       -       -          -            -  "
		"    8000000  1m01s\n"
		"web      web-3    -                  -       -       -          -            -  "
		"          -      -\n");
}

TEST(tcp_without_any_says_what_is_needed) {
	static const char none[] = "no backend whose service has \"agent\": {\"tcp\": true}\n";

	expect_shown(show, NULL, "[]", none);
	expect_shown(show, NULL, JSON([{"service": "web", "name": "web-1", "tcp": null}]), none);
	// a daemon of an earlier version
	expect_shown(show, NULL, JSON([{"service": "web", "name": "web-1"}]), none);
}

// Answers as from a daemon of another version, or from a hostile daemon.
TEST(tcp_of_another_form_is_shown_as_far_as_possible) {
	static const char *const odd[] = {"null", "{}", "[null]", "[{\"tcp\": 5}]",
		"[{\"tcp\": {}}]", "[{\"tcp\": {\"ipv4\": {}}}]",
		"[{\"tcp\": {\"ipv4\": {\"rtt_median_us\": \"x\", \"connections\": []}}}]",
		JSON([{"service": 3, "name": null, "tcp": {"ipv4": {"rtt_median_us": 1e300,
			"rtt_p99_us": -5, "retransmitted_percent": 1e-300}}}])};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		json_t *result = json_loads(odd[i], JSON_DECODE_ANY, NULL);
		FILE *out = fopen("/dev/null", "w");

		assert_non_null(result);
		weir_show_tcp(out, result, 0);
		fclose(out);
		json_decref(result);
	}
}
