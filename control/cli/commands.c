// SPDX-License-Identifier: BSD-3-Clause
#include "commands.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "affinity.h"
#include "canary.h"
#include "capture.h"
#include "check.h"
#include "compare.h"
#include "config.h"
#include "doctor_run.h"
#include "drain.h"
#include "flow_list.h"
#include "import.h"
#include "import_run.h"
#include "init.h"
#include "policy_names.h"
#include "shed.h"
#include "show.h"
#include "stats.h"
#include "status.h"
#include "subset_preview.h"
#include "terminal.h"
#include "top.h"
#include "trace.h"
#include "trace_view.h"
#include "waste.h"

static int build_nothing(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	(void)cli;
	(void)request;
	(void)why;
	(void)n;
	return 0;
}

static int build_service(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const char *service = cli->count > 0 ? cli->words[0] : cli->options->service;

	if (service != NULL && json_object_set_new(request, "service", json_string(service))) {
		snprintf(why, n, "the service name is not valid UTF-8");
		return -EINVAL;
	}
	return 0;
}

static int build_port(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	if (cli->count > 0 && json_object_set_new(request, "port", json_string(cli->words[0]))) {
		snprintf(why, n, "the port name is not valid UTF-8");
		return -EINVAL;
	}
	return 0;
}

static int unknown_policy(const char *text, char *why, size_t n) {
	const char *names[WEIR_POLICY_COUNT + 1] = {[WEIR_POLICY_COUNT] = "configured"};

	for (int i = 0; i < WEIR_POLICY_COUNT; i++) {
		names[i] = weir_policy_name((enum weir_policy)i);
	}
	return weir_cli_unknown("policy", text, weir_config_policy_meant(text), names,
		WEIR_POLICY_COUNT + 1, why, n);
}

// Build the request from "[SERVICE/]NAME"; "SERVICE/" without a name means all backends of the
// service.
static int build_backend(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	if (cli->count > 0 && weir_cli_set_backend(request, cli->words[0])) {
		snprintf(why, n, "expected a backend as NAME or SERVICE/NAME");
		return -EINVAL;
	}
	return 0;
}

static int build_one_backend(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	int r = build_backend(cli, request, why, n);

	if (r == 0 && json_object_get(request, "backend") == NULL) {
		snprintf(why, n, "expected one backend as NAME or SERVICE/NAME");
		return -EINVAL;
	}
	return r;
}

static int build_weight(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const char *text = cli->words[1];
	char *end, shown[64];
	long weight = strtol(text, &end, 10);

	if (strcmp(text, "configured") == 0) {
		json_object_set_new(request, "weight", json_null());
	} else if (text[0] >= '0' && text[0] <= '9' && !*end && weight <= 65535) {
		json_object_set_new(request, "weight", json_integer(weight));
	} else {
		snprintf(why, n, "invalid weight \"%s\": expected 0 to 65535 or \"configured\"",
			weir_terminal_text(text, shown, sizeof(shown)));
		return -EINVAL;
	}
	return build_one_backend(cli, request, why, n);
}

// Build the request from "NAME policy=POLICY". "policy=configured" restores the configured policy.
static int build_service_set(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const char *text = cli->words[1];
	char shown[64];
	const char *policy = text + strlen("policy=");

	if (strncmp(text, "policy=", strlen("policy=")) != 0) {
		snprintf(why, n,
			"invalid setting \"%s\": expected policy=POLICY; --help lists the policies",
			weir_terminal_text(text, shown, sizeof(shown)));
		return -EINVAL;
	}
	if (strcmp(policy, "configured") == 0) {
		json_object_set_new(request, "policy", json_null());
	} else if (weir_policy_parse(policy) >= 0) {
		json_object_set_new(request, "policy", json_string(policy));
	} else {
		return unknown_policy(policy, why, n);
	}
	return build_service(cli, request, why, n);
}

static int build_stealing(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const char *text = cli->words[0];
	char shown[64];

	if (strcmp(text, "configured") == 0) {
		json_object_set_new(request, "stealing", json_null());
	} else if (strcmp(text, "on") == 0 || strcmp(text, "off") == 0) {
		json_object_set_new(request, "stealing", json_string(text));
	} else {
		snprintf(why, n, "invalid setting \"%s\": expected on, off or configured",
			weir_terminal_text(text, shown, sizeof(shown)));
		return -EINVAL;
	}
	return 0;
}

static int build_compare(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	if (cli->options->durations == WEIR_CLI_MEASURED) {
		json_object_set_new(request, "durations", json_string("measured"));
	}
	return build_service(cli, request, why, n);
}

static int build_drain(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	if (cli->options->interval_ms > 0) {
		json_object_set_new(
			request, "interval_ms", json_integer(cli->options->interval_ms));
	}
	return build_one_backend(cli, request, why, n);
}

static int build_service_drain(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	if (cli->options->interval_ms > 0) {
		json_object_set_new(
			request, "interval_ms", json_integer(cli->options->interval_ms));
	}
	return build_service(cli, request, why, n);
}

static int build_host(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	struct weir_address address;
	char shown[80];

	if (weir_address_parse(cli->words[0], &address) < 0) {
		snprintf(why, n,
			"\"%s\" is not an IPv4 or IPv6 address: give the address alone, without a "
			"port or prefix length",
			weir_terminal_text(cli->words[0], shown, sizeof(shown)));
		return -EINVAL;
	}
	if (cli->options->interval_ms > 0) {
		json_object_set_new(
			request, "interval_ms", json_integer(cli->options->interval_ms));
	}
	if (json_object_set_new(request, "address", json_string(cli->words[0]))) {
		snprintf(why, n, "the address is not valid UTF-8");
		return -EINVAL;
	}
	return 0;
}

static const char *const report_keys[] = {"service-time-ms", "service-count", "service-median-ms",
	"busy-time-ms", "busy-count", "requests-per-second", "errors-per-second", "utilization",
	"active-requests", "accept-queue", "accept-queue-limit", "cpus", "cpu-mhz",
	"max-active-flows", "weight-percent", "weight", "gcu"};

#define REPORT_KEYS (sizeof(report_keys) / sizeof(report_keys[0]))

// Add a value of a report, given as "KEY=NUMBER". Keys have hyphens on the command line, and
// underscores in the API.
static int set_report(json_t *request, const char *text, char *why, size_t n) {
	const char *equals = strchr(text, '=');
	char key[32] = "", shown[64];
	double value;
	char *end;

	for (size_t i = 0; equals != NULL && i < REPORT_KEYS; i++) {
		if (strlen(report_keys[i]) == (size_t)(equals - text) &&
			memcmp(report_keys[i], text, (size_t)(equals - text)) == 0) {
			snprintf(key, sizeof(key), "%s", report_keys[i]);
		}
	}
	weir_terminal_text(text, shown, sizeof(shown));
	if (!key[0]) {
		snprintf(why, n,
			"invalid value \"%s\": expected service-time-ms=, requests-per-second=, "
			"errors-per-second=, utilization= or another key that --help lists",
			shown);
		return -EINVAL;
	}
	value = strtod(equals + 1, &end);
	if (end == equals + 1 || *end || !isfinite(value) || value < 0) {
		snprintf(why, n, "invalid value \"%s\": expected a number of at least 0", shown);
		return -EINVAL;
	}
	for (char *c = key; *c; c++) {
		*c = *c == '-' ? '_' : *c;
	}
	json_object_set_new(request, key, json_real(value));
	return 0;
}

static int build_report(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	for (int i = 1; i < cli->count; i++) {
		int r = set_report(request, cli->words[i], why, n);

		if (r) {
			return r;
		}
	}
	return build_one_backend(cli, request, why, n);
}

static int set_endpoint(json_t *request, const char *text, const char *address_key,
	const char *port_key, char *why, size_t n) {
	char address[64], shown[80];
	uint16_t port;

	if (weir_cli_endpoint_parse(text, address, sizeof(address), &port)) {
		snprintf(why, n,
			"invalid endpoint \"%s\": expected ADDRESS:PORT, like 192.0.2.1:80 or "
			"[2001:db8::1]:80",
			weir_terminal_text(text, shown, sizeof(shown)));
		return -EINVAL;
	}
	if (port == 0) {
		snprintf(why, n, "invalid endpoint \"%s\": the port must be 1 to 65535",
			weir_terminal_text(text, shown, sizeof(shown)));
		return -EINVAL;
	}
	json_object_set_new(request, address_key, json_string(address));
	json_object_set_new(request, port_key, json_integer(port));
	return 0;
}

static int build_tuple(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	char shown[32];
	int r;

	if (strcmp(cli->words[0], "tcp") != 0 && strcmp(cli->words[0], "udp") != 0) {
		snprintf(why, n, "invalid protocol \"%s\": expected tcp or udp",
			weir_terminal_text(cli->words[0], shown, sizeof(shown)));
		return -EINVAL;
	}
	json_object_set_new(request, "protocol", json_string(cli->words[0]));
	r = set_endpoint(request, cli->words[1], "source", "source_port", why, n);
	if (r == 0) {
		r = set_endpoint(request, cli->words[2], "destination", "destination_port", why, n);
	}
	return r;
}

// Build the request of trace: capture.start with the flow as its filter.
static int build_trace(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	int packets = cli->options->capture.packets;
	json_t *filter = json_object();
	int r = build_tuple(cli, filter, why, n);

	json_object_set(filter, "client", json_object_get(filter, "source"));
	json_object_del(filter, "source");
	json_object_set_new(request, "filter", filter);
	json_object_set_new(
		request, "packets", json_integer(packets > 0 ? packets : WEIR_TRACE_PACKETS));
	return r;
}

// Add the absolute path of the file to the request, because weir-control has another working
// directory.
static int build_file(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	char path[PATH_MAX], shown[160];
	int r;

	if (cli->count == 0) {
		return 0;
	}
	weir_terminal_text(cli->words[0], shown, sizeof(shown));
	if (realpath(cli->words[0], path) == NULL) {
		r = -errno;
		snprintf(why, n, "cannot read %s: %s", shown, strerror(-r));
		return r == -EINVAL ? -EIO : r;
	}
	if (json_object_set_new(request, "path", json_string(path))) {
		snprintf(why, n, "%s: the file name is not valid UTF-8", shown);
		return -EINVAL;
	}
	return 0;
}

#define BACKEND_TEXT "SERVICE/ is required if the name exists in several services.\n"

// clang-format off
const struct weir_cli_command weir_cli_commands[] = {
	{"service", "show", "[NAME]", "show services with binds and counters",
	 "With NAME, shows the policy of the service and, for each backend, the target share of new flows\n"
	 "and the actual share in the last minute.\n",
	 "weirctl service show web", "service.show", 0, 1, 0, build_service, weir_show_services,
	 NULL, false},
	{"service", "set", "NAME policy=POLICY|configured",
	 "override the selection policy",
	 "POLICY is maglev, round-robin, least-loaded, weighted-round-robin,\n"
	 "interleaved-weighted-round-robin, time-weighted-round-robin, fair-share, random,\n"
	 "power-of-two or prequal; \"configured\" restores the policy of the configuration.\n"
	 "Existing flows keep their backend.\n",
	 "weirctl service set web policy=least-loaded", "service.set", 2, 2, 0, build_service_set,
	 weir_show_policy, NULL, true},
	{"service", "drain", "[--interval DURATION] [--wait] NAME",
	 "refuse new flows of a service; existing flows continue",
	 "Refuses new flows at all VIPs of the service. TCP clients get an RST, UDP clients get\n"
	 "\"port unreachable\"; with closed_ports \"drop\", clients get no answer. The drain ends when no open flow\n"
	 "is left, or at the deadline; drain.at_deadline of the service decides whether the remaining flows\n"
	 "are kept or dropped. New flows are refused until \"service ready\".\n",
	 "weirctl service drain --interval 60s --wait web", "bind.drain", 1, 1, WEIR_CLI_DRAIN,
	 build_service_drain, weir_drain_show_binds, weir_drain_run, true},
	{"service", "ready", "NAME", "accept new flows of a service again", NULL,
	 "weirctl service ready web", "bind.ready", 1, 1, 0, build_service, weir_drain_show_binds, NULL,
	 true},
	{"service", "waste", "NAME", "show how unevenly the backends are used",
	 "Shows the last reported utilization of each backend as a bar, and the gap to the most used\n"
	 "backend. The sum of the gaps is wasted capacity, because the service is full when its most used\n"
	 "backend is full. If agents do not measure utilization yet, the command requests this measurement\n"
	 "from the agents for five minutes.\n",
	 "weirctl service waste web", "service.waste", 1, 1, 0, build_service, weir_waste_show,
	 weir_waste_run, false},
	{"vip", "show", "ADDRESS", "show the drain of a VIP", NULL, "weirctl vip show 198.51.100.10",
	 "bind.show", 1, 1, 0, build_host, weir_show_record, NULL, false},
	{"vip", "drain", "[--interval DURATION] [--wait] ADDRESS",
	 "refuse new flows to a VIP, in all services; existing flows continue",
	 "Refuses new flows like \"service drain\", but only at ADDRESS. Flows are counted\n"
	 "per service: the drain also waits for flows to the other VIPs of the service, and at_deadline \"drop\"\n"
	 "drops flows only if all VIPs of the service are drained.\n",
	 "weirctl vip drain --interval 60s --wait 198.51.100.10", "bind.drain", 1, 1, WEIR_CLI_DRAIN,
	 build_host, weir_drain_show_binds, weir_drain_run, true},
	{"vip", "ready", "ADDRESS", "accept new flows to a VIP again", NULL,
	 "weirctl vip ready 198.51.100.10", "bind.ready", 1, 1, 0, build_host, weir_drain_show_binds,
	 NULL, true},
	{"backend", "show", "[--tcp] [[SERVICE/]NAME]", "show backends with state, weight and share",
	 "SERVICE/ selects all backends of a service.\n"
	 "SHARE-% is the target share of new flows; NEW-% is the actual share since weir-dataplane started.\n",
	 "weirctl backend show web/", "backend.show", 0, 1, WEIR_CLI_FIGURES, build_backend, weir_show_backends,
	 NULL, false},
	{"backend", "drain", "[--interval DURATION] [--wait] [SERVICE/]NAME",
	 "stop new flows to a backend; existing flows continue",
	 "The drain ends when no open flow is left, or at the deadline; drain.at_deadline of the\n"
	 "service decides whether the remaining flows are kept or dropped. The drain runs\n"
	 "in weir-control, with and without --wait.\n" BACKEND_TEXT,
	 "weirctl backend drain --interval 60s --wait web/web-1", "backend.drain", 1, 1,
	 WEIR_CLI_DRAIN, build_drain, weir_show_change, weir_drain_run, true},
	{"backend", "ready", "[SERVICE/]NAME", "give new flows to a healthy backend again",
	 BACKEND_TEXT, "weirctl backend ready web-1", "backend.ready", 1, 1, 0, build_one_backend,
	 weir_show_change, NULL, true},
	{"backend", "maintenance", "[SERVICE/]NAME",
	 "give a backend no new flows, even in panic mode", BACKEND_TEXT,
	 "weirctl backend maintenance web-1", "backend.maintenance", 1, 1, 0, build_one_backend,
	 weir_show_change, NULL, true},
	{"backend", "report", "[SERVICE/]NAME KEY=NUMBER...",
	 "submit a backend's load report",
	 "KEY is one of\n"
	 "  service-time-ms, busy-time-ms          mean per request\n"
	 "  service-median-ms                      median\n"
	 "  service-count, busy-count              number of requests measured (default 1)\n"
	 "  requests-per-second, errors-per-second requests include failed requests\n"
	 "  utilization                            1 = fully used\n"
	 "  active-requests, accept-queue, accept-queue-limit, cpus, cpu-mhz,\n"
	 "  gcu, max-active-flows, weight-percent, weight\n"
	 "The reply lists the keys that the policy of the service uses.\n" BACKEND_TEXT,
	 "weirctl backend report web/web-1 requests-per-second=120 utilization=0.6",
	 "backend.report", 2, 18, 0, build_report, weir_show_report, NULL, true},
	{"backend", "shed", "--to-mean|--stop [SERVICE/]NAME",
	 "end connections of a backend that has more connections than the mean of its service",
	 "Useful after a scale-out: the clients connect again, and the new flows get a backend\n"
	 "as usual. The mean is the backend's share, by weight, of the service's open flows on this\n"
	 "balancer; backends that get no new flows are left out. The weir-agent of the backend ends the\n"
	 "connections until the backend is at the mean, but not faster than --rate. This agent\n"
	 "must run with --shed-idle or --shed-hook.\n"
	 "\"backend show NAME\" shows the progress.\n"
	 BACKEND_TEXT,
	 "weirctl backend shed --to-mean --rate 50/s web/web-1", "shed.start", 1, 1, WEIR_CLI_SHED,
	 weir_shed_build, weir_shed_show, weir_shed_run, true},
	{"host", "show", "ADDRESS", "show the backends that have ADDRESS, in all services", NULL,
	 "weirctl host show 10.0.0.11", "host.show", 1, 1, 0, build_host, weir_show_record, NULL, false},
	{"host", "drain", "[--interval DURATION] [--wait] ADDRESS",
	 "drain all backends that have ADDRESS, in all services",
	 "Drains all of these backends like \"backend drain\", or no backend if there is an\n"
	 "error. Backends in maintenance stay in maintenance.\n",
	 "weirctl host drain --interval 60s --wait 10.0.0.11", "host.drain", 1, 1, WEIR_CLI_DRAIN,
	 build_host, weir_drain_show_host, weir_drain_run, true},
	{"host", "maintenance", "ADDRESS",
	 "give all backends that have ADDRESS no new flows, even in panic mode",
	 "For a broken host. \"host ready\" ends the maintenance.\n",
	 "weirctl host maintenance 10.0.0.11", "host.maintenance", 1, 1, 0, build_host,
	 weir_drain_show_host, NULL, true},
	{"host", "ready", "ADDRESS", "end the drains of all backends that have ADDRESS",
	 "Drained backends become ready again. Backends in maintenance stay in maintenance, unless all\n"
	 "backends that have ADDRESS are in maintenance: then they become ready.\n",
	 "weirctl host ready 10.0.0.11", "host.ready", 1, 1, 0, build_host, weir_drain_show_host, NULL,
	 true},
	{"weight", "set", "[SERVICE/]BACKEND WEIGHT|configured",
	 "override the configured weight",
	 "WEIGHT is 0 to 65535; \"configured\" restores the weight of the configuration.\n" BACKEND_TEXT,
	 "weirctl weight set web/web-1 50", "weight.set", 2, 2, 0, build_weight, weir_show_weight,
	 NULL, true},
	{"canary", "start", "[--steps LIST] [--dry-run] SERVICE BACKEND",
	 "raise a backend's share of new flows in steps; roll back if the backend has more errors or latency",
	 "Compares the reported errors and latency of BACKEND with the other backends; without reports,\n"
	 "compares the percentage of new flows that got no answer. If BACKEND is clearly worse, its weight\n"
	 "is set to 0 immediately (rollback). After the last step, BACKEND gets its configured weight.\n"
	 "A step is prolonged until there are enough requests. Needs policy maglev or weighted-round-robin.\n"
	 "HTTP errors are counted only if reported through ORCA or weirctl backend report. Without ORCA,\n"
	 "the agent counts connections, and only connections that the server resets count as errors.\n",
	 "weirctl canary start --steps 1,5,20,50 --every 60s web web-3", "canary.start", 2, 2,
	 WEIR_CLI_CANARY, weir_canary_build_start, weir_canary_show_one, weir_canary_run_start, true},
	{"canary", "list", "", "show the canaries of all services", NULL, "weirctl canary list",
	 "canary.show", 0, 0, 0, build_nothing, weir_canary_show_list, NULL, false},
	{"canary", "show", "SERVICE", "show the canary of a service, with its errors and latency and the values of the other backends", NULL,
	 "weirctl canary show web", "canary.show", 1, 1, 0, build_service, weir_canary_show_all, NULL,
	 false},
	{"canary", "stop", "[--promote|--rollback] SERVICE", "end the canary of a service",
	 "Without an option the backend keeps the weight of the current step.\n",
	 "weirctl canary stop --rollback web", "canary.stop", 1, 1, WEIR_CLI_CANARY_STOP,
	 weir_canary_build_stop, weir_canary_show_one, NULL, true},
	{"subset", "show", "[SERVICE]", "show which backends this instance uses",
	 "With SERVICE, shows each backend of the subset, and the number of subsets of the whole fleet\n"
	 "that contain the backend.\n",
	 "weirctl subset show web", "subset.show", 0, 1, 0, build_service, weir_show_subsets, NULL, false},
	{"subset", "preview", "--clients N --backends M --size K",
	 "compute the number of clients per backend with subsets; needs no daemon",
	 NULL,
	 "weirctl subset preview --clients 300 --backends 300 --size 30", NULL, 0, 0,
	 WEIR_CLI_SUBSET, NULL, NULL, weir_subset_preview_run, false},
	{"policy", "compare", "[--for DURATION] [--durations HOW] SERVICE",
	 "replay recorded flows through every policy",
	 "Records the flows of the service for the time --for, and replays the flows through every policy\n"
	 "that needs no reports. The first row is the recording; compare this row with the row of the\n"
	 "configured policy to see how accurate the replay is. SPREAD is ACTIVE-MOST / ACTIVE-MEAN: the\n"
	 "concurrent flows of the most loaded backend, divided by the mean of all backends, both averaged\n"
	 "over time.\n",
	 "weirctl policy compare --for 10s web", "policy.compare", 1, 1, WEIR_CLI_COMPARE,
	 build_compare, weir_compare_show, weir_compare_run, true},
	{"flow", "count", "[--service SERVICE]", "show the number of active flows per backend", NULL,
	 "weirctl flow count --service web", "flow.count", 0, 0, WEIR_CLI_SERVICE, build_service,
	 weir_show_flow_count, NULL, false},
	{"flow", "lookup", "PROTOCOL SOURCE:PORT DESTINATION:PORT",
	 "show which backend a flow has or would get, and why",
	 "PROTOCOL is tcp or udp. Write IPv6 addresses in brackets.\n",
	 "weirctl flow lookup tcp [2001:db8::7]:40000 [2001:db8:ffff::10]:80", "flow.lookup", 3, 3, 0,
	 build_tuple, weir_show_flow_lookup, NULL, false},
	{"flow", "list", "[--service SERVICE] [--client PREFIX] [--limit N]",
	 "list the flows in the flow tables",
	 "Prints lines as they arrive; with --json each line is an object. A flow that begins or ends\n"
	 "while the command runs may be missing.\n",
	 "weirctl flow list --service web --client 192.0.2.0/24 --limit 20", "flow.list", 0, 0,
	 WEIR_CLI_SERVICE | WEIR_CLI_FLOWS, weir_flow_list_build, NULL, weir_flow_list_run, true},
	{"flow", "delete", "PROTOCOL SOURCE:PORT DESTINATION:PORT", "delete a flow from the flow table",
	 "The next packet is forwarded like a packet of an unknown flow: for a SYN or a datagram,\n"
	 "the policy selects a backend; any other packet goes to the backend of the Maglev fallback. If\n"
	 "this backend does not have the connection, it resets the connection.\n",
	 "weirctl flow delete tcp 192.0.2.7:40000 198.51.100.10:80", "flow.delete", 3, 3, 0, build_tuple,
	 weir_flow_delete_show, NULL, true},
	{"flow", "clear", "[SERVICE/]NAME", "delete all flows of a backend",
	 "Deletes each flow like \"flow delete\", which may break connections; to keep connections\n"
	 "intact, drain the backend instead. Walks the flow tables, and by default waits up to 60 s.\n"
	 BACKEND_TEXT,
	 "weirctl flow clear web/web-1", "flow.clear", 1, 1, 0, build_one_backend, weir_flow_delete_show,
	 NULL, true},
	{"flow", "steals", "[SERVICE]",
	 "show connections moved away from backends that accept no connections",
	 "Shows services with \"steal\", then the last 256 steal requests. Connections in the columns SILENT\n"
	 "and REFUSED stay at their backend. Exception: after the outcome no_worker or abandoned, a worker\n"
	 "may still move the connection. The counters begin at the start of weir-control.\n",
	 "weirctl flow steals web", "flow.steals", 0, 1, 0, build_service, weir_show_steals, NULL,
	 false},
	{"affinity", "show", "[SERVICE [CLIENT]]",
	 "show the number of clients with an affinity entry, or the backend of a client",
	 "Shows the number of clients with an affinity entry: for each service, or with SERVICE, for each\n"
	 "backend. With CLIENT, an address or a prefix, shows the backend that gets the client's new flows.\n"
	 "A client is proven if a TCP connection of the client was established. Floods of forged addresses\n"
	 "do not displace proven clients.\n"
	 "With CLIENT, the command also works for members of the --group of weir-control.\n",
	 "weirctl affinity show web 192.0.2.7", "affinity.show", 0, 2, 0, weir_affinity_build_show,
	 weir_affinity_show, NULL, true},
	{"affinity", "clear", "SERVICE[/BACKEND] [CLIENT]",
	 "delete the affinity entries of clients; existing flows continue",
	 "Deletes the entries of all clients of the service, of the clients of one backend, or of one client.\n"
	 "With BACKEND and CLIENT, deletes the entry only if it refers to this backend. The policy selects a\n"
	 "backend for the client's next flow; to keep new flows away from a backend, drain the backend. If an\n"
	 "established connection of a client ends before its next flow begins, the client gets an entry for the\n"
	 "backend of this connection again. Without CLIENT, walks the affinity table, and by default waits up\n"
	 "to 60 s.\n",
	 "weirctl affinity clear web/web-1", "affinity.clear", 1, 2, 0, weir_affinity_build_clear,
	 weir_affinity_show_cleared, NULL, true},
	{"worker", "show", "", "show workers with load and counters",
	 "Shows the load, flow buckets and packet counters of each worker. BUCKETS is the number of flow\n"
	 "buckets of the worker: idle workers take buckets from busy workers. HOTTEST-% is the share of the\n"
	 "worker's time spent on its bucket with the most packets. ALIVE is \"no\" if a worker is stalled;\n"
	 "the exit status is 1 then.\n",
	 "weirctl worker show", "worker.show", 0, 0, 0, build_nothing, weir_show_workers,
	 weir_worker_show_run, false},
	{"worker", "steal", "on|off|configured",
	 "allow or forbid workers to take flows from busier workers",
	 "\"configured\" restores the value of workers.steal. \"off\" does not move flows back. A reload\n"
	 "or a restart of weir-control does not change the setting.\n",
	 "weirctl worker steal off", "worker.steal", 1, 1, 0, build_stealing, weir_show_stealing, NULL,
	 true},
	{"port", "show", "[NAME]", "show the ports of the dataplane with their counters",
	 "With NAME, shows all counters of the port from its device and the kernel.\n",
	 "weirctl port show wan", "port.show", 0, 1, 0, build_port, weir_show_ports, NULL, false},
	{"stats", "show", "[--watch] [--interval SECONDS] [--count N]",
	 "show all counters; with --watch, rates per second",
	 NULL,
	 "weirctl stats show --watch --interval 2", "stats.show", 0, 0, WEIR_CLI_WATCH,
	 build_nothing, weir_stats_show, weir_stats_run, false},
	{"top", NULL, "[--once] [--interval SECONDS] [--sort ORDER]",
	 "show services, backends, workers, drops and events live",
	 "Needs a terminal, except with --once or --json. Keys: n, p, a, w, b and s sort the backends by\n"
	 "new flows, packets, active flows, weight, name and service; j and k (or the arrows) scroll by one\n"
	 "line, space and - by ten lines, g to the first line; ? shows all keys; q and ^C quit. --json\n"
	 "prints one sample, like --once.\n",
	 "weirctl top --once --sort packets", "stats.show", 0, 0, WEIR_CLI_TOP, build_nothing, NULL,
	 weir_top_run, false},
	{"capture", "start", "[--service SERVICE] [--packets N] FILE",
	 "write packets and their actions to a pcapng file",
	 "Writes packets as received, each with its action (such as forward or drop) and the reason\n"
	 "as a comment. FILE \"-\" is standard output. A packet must match every option that is given; if\n"
	 "--drop-reason or --action is repeated, the packet must match one of the values. ^C ends the\n"
	 "capture. Only one capture can run at a time. A capture does not delay traffic: packets that do\n"
	 "not fit into the buffers are counted as \"lost\", and packets beyond --rate are counted as\n"
	 "\"over the rate limit\".\n",
	 "weirctl capture start --service web --drop-reason no_backend --packets 100 web.pcapng",
	 "capture.start", 1, 1, WEIR_CLI_SERVICE | WEIR_CLI_CAPTURE, weir_capture_build, NULL,
	 weir_capture_run, true},
	{"trace", NULL, "[--packets N] PROTOCOL SOURCE:PORT DESTINATION:PORT",
	 "show the result of each stage for the next packets of a flow",
	 "PROTOCOL is tcp or udp. Write IPv6 addresses in brackets. With --json each packet is an\n"
	 "object on a line. A trace is a capture: only one capture can run at a time.\n",
	 "weirctl trace tcp 192.0.2.7:40000 198.51.100.10:80", "capture.start", 3, 3, WEIR_CLI_TRACE,
	 build_trace, NULL, weir_trace_run, true},
	{"config", "check", "[--strict] FILE", "check a configuration file; needs no daemon",
	 "Prints FILE:LINE:COLUMN: PATH: REASON for each error and warning. Warnings begin with \"warning:\".\n"
	 "FILE \"-\" is standard input.\n",
	 "weirctl config check /etc/weir/weir.json", NULL, 1, 1, WEIR_CLI_STRICT, NULL, NULL,
	 weir_check_run, false},
	{"config", "init", "[FILE]", "write a first configuration; needs no daemon",
	 "Writes a configuration with a port for the interface of the default route, one service as an\n"
	 "example, and a random hash_seed. FILE defaults to /etc/weir/weir.json; \"-\" is standard output.\n"
	 "An existing FILE is overwritten only if it has no service and all its ports are null devices\n"
	 "(net_null), as in the file that the package installs.\n",
	 "weirctl config init /etc/weir/weir.json", NULL, 0, 1, 0, NULL, NULL, weir_init_run, false},
	{"config", "diff", "[FILE]", "show what a reload would change, and the effect on open flows",
	 "Compares FILE with the running configuration. FILE defaults to the file that weir-control was\n"
	 "started with. A text in parentheses shows how many open flows a change breaks or moves, or how\n"
	 "many flows stay with a removed backend.\n",
	 "weirctl config diff new.json", "config.diff", 0, 1, 0, build_file, weir_show_changes, NULL, true},
	{"config", "reload", "[FILE]", "apply the configuration and show the changes",
	 "FILE defaults to the file that weir-control was started with. If another FILE is given, it is used\n"
	 "until the next reload without FILE, or the next restart of weir-control. A file with errors changes\n"
	 "nothing.\n",
	 "weirctl config reload", "config.reload", 0, 1, 0, build_file, weir_show_reload, NULL, true},
	{"config", "waiting", "", "show the changes that wait for a restart of weir-dataplane",
	 "Shows the current value and the pending value, and the maximum number of open flows that the\n"
	 "restart would break. The pending values were read at the last reload, or at the start of\n"
	 "weir-control.\n",
	 "weirctl config waiting", "config.waiting", 0, 0, 0, build_nothing, weir_show_waiting, NULL, false},
	{"audit", "show", "", "show changes and refused requests, with the user of each",
	 "Shows the last 256 changes and the last 64 refused requests since the start of weir-control.\n"
	 "The log of weir-control has a line for each change and each refused request.\n",
	 "weirctl audit show", "audit.show", 0, 0, 0, build_nothing, weir_show_audit, NULL, false},
	{"import", "ipvs", "[--all] [--report NOTES] [FILE]",
	 "convert ipvsadm rules to a configuration; needs no daemon",
	 "Reads the output of \"ipvsadm -S -n\" from FILE. Without FILE, or with FILE \"-\", reads standard\n"
	 "input. Writes the configuration to standard output, and a summary of the rules without a\n"
	 "counterpart in Weir to standard error, the most serious first. --all prints each of these rules.\n"
	 "--report writes each of these rules to the file NOTES instead. --json writes the rules as JSON.\n",
	 "weirctl import ipvs --report notes rules", NULL, 0, 1, WEIR_CLI_REPORT, NULL, NULL,
	 weir_import_ipvs_run, false},
	{"import", "keepalived", "[--id NAME] [--all] [--report NOTES] FILE",
	 "convert the virtual servers of a keepalived.conf to a configuration; needs no daemon",
	 "Reads FILE, and the files that FILE includes. FILE \"-\" is standard input.\n"
	 "Writes the configuration to standard output, and a summary of the statements without a counterpart\n"
	 "in Weir to standard error, the most serious first. --all prints each of these statements.\n"
	 "--report writes each statement to the file NOTES instead. --json writes the statements as JSON.\n",
	 "weirctl import keepalived /etc/keepalived/keepalived.conf", NULL, 1, 1,
	 WEIR_CLI_REPORT | WEIR_CLI_ID, NULL, NULL, weir_import_keepalived_run, false},
	{"health", "show", "[SERVICE]", "show health checks and their latest results", NULL,
	 "weirctl health show web", "health.show", 0, 1, 0, build_service, weir_show_health, NULL, false},
	{"health", "history", "[[SERVICE/]NAME]", "show the health history of backends, with reasons",
	 "The history has at most 1,024 changes; the service with the most loses its oldest ones.\n"
	 "SERVICE/ selects all backends of a service.\n",
	 "weirctl health history web/web-1", "health.history", 0, 1, 0, build_backend,
	 weir_show_history, NULL, false},
	{"status", NULL, "[--service SERVICE]",
	 "show whether this instance should get traffic; needs no daemon",
	 "Prints one line for scripts that announce routes, and for monitoring: OK (exit status 0),\n"
	 "WARNING (1), CRITICAL (2) or UNKNOWN (3), and the reason. Ends within two seconds, or within\n"
	 "--timeout if --timeout is less. The status is CRITICAL if weir-dataplane is not running, is\n"
	 "stalled or has no tables, if one of its workers is stalled, if no port has a link, if\n"
	 "no service has an eligible backend with a next hop, or if an operator has drained all\n"
	 "services and all drains have ended. With --service, checks the backends and\n"
	 "the drain of this service only.\n",
	 "weirctl status", NULL, 0, 0, WEIR_CLI_SERVICE, NULL, NULL, weir_status_run, false},
	{"doctor", NULL, "[--config FILE] [--root DIR]",
	 "check the settings of this machine that Weir needs; needs no daemon",
	 "Prints findings, and changes nothing. Most findings have a command, after \"$\", that fixes the fault.\nSends echo requests to the backends, directly and in their forwarding mode; this needs CAP_NET_RAW.\nThe exit status is 0 without warnings and faults, 1 with warnings, 2 with faults.\n",
	 "weirctl doctor --config /etc/weir/weir.json", NULL, 0, 0, WEIR_CLI_DOCTOR, NULL, NULL,
	 weir_doctor_command_run, false},
	{"version", NULL, "", "show the versions of weirctl and of the daemons", NULL, "weirctl version",
	 "version", 0, 0, 0, build_nothing, weir_show_version, NULL, false},
};
// clang-format on

const int weir_cli_command_count = sizeof(weir_cli_commands) / sizeof(weir_cli_commands[0]);
