// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "families.h"
#include "family_list.h"
#include "test.h"

// A short reply to metrics.show. Families whose values are not in the reply are omitted.
static const char reply[] =
	"{\"control\": {\"version\": \"9\", \"cpu_us\": 2500000, \"published\": true},"
	" \"dataplane\": {\"tsc_hz\": 2000},"
	" \"workers\": [{\"worker\": 0, \"rx_packets\": 9223372036854775807, \"busy_cycles\": 3000,"
	"   \"busy_percent\": 12.5, \"alive\": true, \"flow_new\": 3, \"buckets\": null,"
	"   \"stealing\": \"off\", \"drops\": {\"no_backend\": 5, \"ttl\": 0}}],"
	" \"ports\": [{\"name\": \"w\\\"an\", \"ipackets\": 7, \"ibytes\": 700, \"xstats\": "
	"{\"rx_q0\": 1}}],"
	" \"columns\": {\"service\": [\"kind\", \"service\", \"policy\", \"forwarding\", \"binds\","
	"    \"new_flows\", \"check_seconds\", \"unchecked\"],"
	"   \"backend\": [\"kind\", \"service\", \"backend\", \"address\", \"health\", \"leaving\","
	"    \"in_selection\", \"effective_weight\", \"since_ms\", \"open_flows\","
	"    \"active_flows\"],"
	"   \"tcp\": [\"kind\", \"service\", \"backend\", \"clients\", \"connections\", \"rtt_us\","
	"    \"segments\", \"sent_bytes\", \"delivery_rate\"]},"
	" \"rows\": [[\"service\", \"web\", \"maglev\", \"ipip\", [\"tcp 198.51.100.10:80\"], 4,"
	"   {\"buckets\": {\"0.5\": 2, \"1.0\": 2, \"+Inf\": 3}, \"sum\": 2.25}, 2],"
	"  [\"service\", \"dns\", \"maglev\", \"ipip\", [\"udp [2001:db8::1]:53\","
	"    \"udp 198.51.100.10:*\"], null, null, null],"
	"  [\"backend\", \"web\", \"b\", \"10.0.0.9\", \"refusing\", true, false, 100, 1, 2, 3],"
	"  [\"backend\", \"web\", \"b\", \"10.0.0.1\", \"healthy\", false, true, 100, 1500, 7, 9],"
	"  [\"backend\", \"web\", \"b\", \"10.0.0.8\", \"healthy\", false, true, 100, 1500, 7, 9],"
	"  [\"backend\", \"dns\", \"b\", \"10.0.0.1\", \"healthy\", false, false, 5, null, null,"
	"    null],"
	"  [\"tcp\", \"web\", \"b\", \"ipv4\", 7, {\"0.5\": 21000, \"0.99\": 180000}, 900, 70000, "
	"5],"
	"  [\"tcp\", \"web\", \"b\", \"ipv6\", 0, null, 40, 3000, null]]}";

static char *render(const char *control, bool ipvs_names, bool openmetrics) {
	struct weir_figures figures = {
		.own = json_pack("{s:s, s:b}", "version", "1", "control_up", 1),
		.control = control != NULL ? json_loads(control, 0, NULL) : NULL};
	struct weir_text text = {0};

	assert_true(control == NULL || figures.control != NULL);
	weir_families_write(&text, &figures, ipvs_names, openmetrics);
	weir_text_add(&text, "", 1);
	assert_false(text.failed);
	json_decref((json_t *)figures.own);
	json_decref((json_t *)figures.control);
	return text.data;
}

static void has(const char *text, const char *lines) {
	if (strstr(text, lines) == NULL) {
		fail_msg("%s\nhas not\n%s", text, lines);
	}
}

static void has_not(const char *text, const char *lines) {
	if (strstr(text, lines) != NULL) {
		fail_msg("%s\nhas\n%s", text, lines);
	}
}

TEST(families_have_the_values_of_the_reply) {
	char *text = render(reply, false, false);

	has(text, "# HELP weir_worker_receive_packets_total Packets received.\n"
		  "# TYPE weir_worker_receive_packets_total counter\n"
		  "weir_worker_receive_packets_total{worker=\"0\"} 9223372036854775807\n");
	has(text, "\nweir_worker_busy_seconds_total{worker=\"0\"} 1.5\n");
	has(text, "\nweir_worker_busy_ratio{worker=\"0\"} 0.125\n");
	has(text, "\nweir_worker_up{worker=\"0\"} 1\n");
	has(text, "\nweir_worker_drops_total{worker=\"0\",reason=\"no_backend\"} 5\n");
	has(text, "\nweir_worker_stealing{worker=\"0\",state=\"off\"} 1\n");
	has(text, "\nweir_control_cpu_seconds_total 2.5\n");
	has(text, "\nweir_control_published 1\n");
	has(text, "\nweir_build_info{version=\"1\"} 1\n");
	has(text, "\nweir_port_receive_packets_total{port=\"w\\\"an\"} 7\n");
	has(text, "# TYPE weir_port_device_statistic untyped\n"
		  "weir_port_device_statistic{port=\"w\\\"an\",statistic=\"rx_q0\"} 1\n");
	has(text, "\nweir_service_info{service=\"web\",policy=\"maglev\",forwarding=\"ipip\"} 1\n");
	has(text, "\nweir_backend_health{service=\"web\",backend=\"b\",state=\"healthy\"} 1\n");
	has(text, "\nweir_backend_health{service=\"web\",backend=\"b\",state=\"refusing\"} 0\n");
	has(text, "\nweir_backend_health_age_seconds{service=\"web\",backend=\"b\"} 1.5\n");
	has(text, "\nweir_service_unchecked_backends{service=\"web\"} 2\n");
	// the service has no check
	has_not(text, "weir_service_unchecked_backends{service=\"dns\"}");
	free(text);
}

TEST(tcp_figures_are_series_of_each_family) {
	char *text = render(reply, false, false);

	has(text, "# TYPE weir_backend_tcp_connections gauge\n"
		  "weir_backend_tcp_connections{service=\"web\",backend=\"b\",clients=\"ipv4\"} 7\n"
		  "weir_backend_tcp_connections{service=\"web\",backend=\"b\",clients=\"ipv6\"} 0\n"
		  "#");
	has(text, "\nweir_backend_tcp_rtt_seconds{service=\"web\",backend=\"b\",clients=\"ipv4\","
		  "quantile=\"0.5\"} 0.021\n"
		  "weir_backend_tcp_rtt_seconds{service=\"web\",backend=\"b\",clients=\"ipv4\","
		  "quantile=\"0.99\"} 0.18\n"
		  "#"); // no series of IPv6
	has(text, "\nweir_backend_tcp_sent_bytes_total{service=\"web\",backend=\"b\","
		  "clients=\"ipv6\"} 3000\n");
	has(text, "\nweir_backend_tcp_delivery_rate_bytes_per_second{service=\"web\","
		  "backend=\"b\",clients=\"ipv4\"} 5\n");
	has_not(text, "weir_backend_tcp_retransmitted_segments"); // the reply has no such column
	free(text);
}

static const char histogram[] =
	"# TYPE weir_service_check_duration_seconds histogram\n"
	"weir_service_check_duration_seconds_bucket{service=\"web\",le=\"0.5\"} 2\n"
	"weir_service_check_duration_seconds_bucket{service=\"web\",le=\"1.0\"} 2\n"
	"weir_service_check_duration_seconds_bucket{service=\"web\",le=\"+Inf\"} 3\n"
	"weir_service_check_duration_seconds_sum{service=\"web\"} 2.25\n"
	"weir_service_check_duration_seconds_count{service=\"web\"} 3\n"
	"#"; // no series of the other service

TEST(histogram_has_buckets_sum_and_count) {
	char *text = render(reply, false, false);

	has(text, histogram);
	free(text);
}

TEST(families_without_a_value_are_omitted) {
	char *text = render(reply, false, false);

	has_not(text, "weir_worker_buckets"); // the reply has null
	has_not(text, "weir_backend_ejections"); // the reply has no such column
	has_not(text, "weir_segment_"); // the reply has no such object
	has_not(text, "weir_service_new_flows_total{service=\"dns\"}"); // null in one row
	has_not(text, "node_ipvs");
	has_not(text, "# EOF");
	free(text);
	text = render(NULL, true, false);
	has(text, "\nweir_control_up 1\n");
	has_not(text, "weir_worker");
	has_not(text, "node_ipvs");
	free(text);
}

// Two backends have the same name, because one of them was removed, or was added while the list
// was being sent. There must be only one series.
TEST(series_are_not_duplicated) {
	const char *name = "\nweir_backend_open_flows{service=\"web\",backend=\"b\"} ";
	char *text = render(reply, false, false), *at = strstr(text, name);

	assert_non_null(at);
	has(text, "\nweir_backend_open_flows{service=\"web\",backend=\"b\"} 7\n");
	assert_null(strstr(at + 1, name));
	free(text);
}

TEST(openmetrics_names_families_and_units) {
	char *text = render(reply, false, true);

	has(text, "# HELP weir_worker_receive_packets Packets received.\n"
		  "# TYPE weir_worker_receive_packets counter\n"
		  "# UNIT weir_worker_receive_packets packets\n"
		  "weir_worker_receive_packets_total{worker=\"0\"} 9223372036854775807\n");
	has(text, "# TYPE weir_port_device_statistic unknown\n");
	assert_string_equal(text + strlen(text) - 7, "\n# EOF\n");
	free(text);
}

TEST(ipvs_names_are_those_of_node_exporter) {
	char *text = render(reply, true, false);

	has(text, "\nnode_ipvs_connections_total 3\n");
	// the counters of ports are used, because workers count some packets twice
	has(text, "\nnode_ipvs_incoming_bytes_total 700\n");
	// Several backends have the same labels, so their values are added up.
	has(text, "\nnode_ipvs_backend_connections_active{local_address=\"198.51.100.10\","
		  "local_port=\"80\",remote_address=\"10.0.0.1\",remote_port=\"80\",proto=\"TCP\","
		  "local_mark=\"\"} 7\n");
	has(text, "\nnode_ipvs_backend_connections_inactive{local_address=\"198.51.100.10\","
		  "local_port=\"80\",remote_address=\"10.0.0.1\",remote_port=\"80\",proto=\"TCP\","
		  "local_mark=\"\"} 2\n");
	// A service with several binds has no single address. It is shown like a service of IPVS
	// with a firewall mark.
	has(text, "\nnode_ipvs_backend_weight{local_address=\"\",local_port=\"0\","
		  "remote_address=\"10.0.0.1\",remote_port=\"0\",proto=\"FWM\","
		  "local_mark=\"dns\"} 0\n");
	has_not(text, "node_ipvs_outgoing");
	free(text);
}

// All families follow the naming rules of Prometheus.
TEST(names_follow_the_conventions) {
	for (size_t i = 0; i < weir_family_count; i++) {
		const struct weir_family *family = &weir_families[i];
		size_t bytes = strlen(family->name), unit = strlen(family->unit);

		assert_int_equal(strncmp(family->name, "weir_", 5), 0);
		assert_int_equal(strspn(family->name, "abcdefghijklmnopqrstuvwxyz_"), bytes);
		assert_true(bytes > unit);
		assert_string_equal(family->name + bytes - unit, family->unit);
		assert_null(strstr(family->name, "_total"));
		assert_int_equal(family->help[strlen(family->help) - 1], '.');
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(family->name, weir_families[j].name);
		}
	}
}
