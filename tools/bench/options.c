// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "flow_table.h"
#include "help_text.h"
#include "layout.h"
#include "packets.h"
#include "verdict.h"

#define FLOWS_MAX (1u << 28)
#define DEFAULT_TABLE_FLOWS 1048576u // default of flow_table.flows_per_worker

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_bench_options, member)

const char *weir_bench_case_name(enum weir_bench_case kind) {
	static const char *const names[] = {
#define X(name, key) [WEIR_BENCH_CASE_##name] = (key),
		WEIR_BENCH_CASES(X)
#undef X
	};

	return names[kind];
}

const char *weir_bench_order_name(enum weir_bench_order_kind order) {
	static const char *const names[] = {
#define X(name, key) [WEIR_BENCH_ORDER_##name] = (key),
		WEIR_BENCH_ORDERS(X)
#undef X
	};

	return names[order];
}

const char *weir_bench_headers_name(enum weir_bench_headers headers) {
	static const char *const names[] = {
#define X(name, key) [WEIR_BENCH_HEADERS_##name] = (key),
		WEIR_BENCH_HEADERS(X)
#undef X
	};

	return names[headers];
}

// --- table --------------------------------------------------------------------------------

static const struct weir_option_word cases[] = {
	{"established", WEIR_BENCH_CASE_ESTABLISHED, "packets of flows that are in the flow table"},
	{"new", WEIR_BENCH_CASE_NEW,
		"SYNs of new flows with a full table; each new flow evicts an older flow"},
	{"syn-flood", WEIR_BENCH_CASE_SYN_FLOOD,
		"established flows, first alone, then during a SYN flood"},
	{"mixed", WEIR_BENCH_CASE_MIXED, "established, new and ending flows, TCP and UDP"},
	{NULL, 0, NULL},
};
static const struct weir_option_word orders[] = {
	{"uniform", WEIR_BENCH_ORDER_UNIFORM, "each flow with equal probability"},
	{"zipf", WEIR_BENCH_ORDER_ZIPF, "a few flows get most of the packets (Zipf distribution)"},
	{"one", WEIR_BENCH_ORDER_ONE, "always the same flow"},
	{NULL, 0, NULL},
};
static const struct weir_option_word headers[] = {
	{"warm", WEIR_BENCH_HEADERS_WARM,
		"in the L2 cache, as with a NIC that writes to the CPU cache (DDIO)"},
	{"cold", WEIR_BENCH_HEADERS_COLD, "in memory"},
	{NULL, 0, NULL},
};
#define X(name, member, key, text) {key, WEIR_FORWARDING_##name, NULL},
static const struct weir_option_word forwardings[] = {WEIR_FORWARDING_MODES(X){NULL, 0, NULL}};
#undef X
#define X(name, key, needs) {key, WEIR_POLICY_##name, NULL},
static const struct weir_option_word policies[] = {WEIR_POLICIES(X){NULL, 0, NULL}};
#undef X
static const struct weir_option_word families[] = {{"4", 4, NULL}, {"6", 6, NULL}, {NULL, 0, NULL}};
static const struct weir_option_word publish_words[] = {
	{"selections", WEIR_BENCH_PUBLISH_SELECTIONS, "publish the selection of a service"},
	{"rows", WEIR_BENCH_PUBLISH_ROWS, "publish the headers of a backend"},
	{"both", WEIR_BENCH_PUBLISH_BOTH, "publish a selection and the headers of a backend"},
	{"scrapes", WEIR_BENCH_PUBLISH_SCRAPES, "read all counters, as for metrics"},
	{"lists", WEIR_BENCH_PUBLISH_LISTS, "list a part of the flow table"},
	{"captures", WEIR_BENCH_PUBLISH_CAPTURES,
		"capture all packets, and read the captured packets"},
	{"idle-captures", WEIR_BENCH_PUBLISH_IDLE_CAPTURES,
		"read a capture that matches no packet"},
	{NULL, 0, NULL},
};
static const struct weir_option_word protocols[] = {
	{"tcp", IPPROTO_TCP, NULL}, {"udp", IPPROTO_UDP, NULL}, {NULL, 0, NULL}};

enum { ROW_HUGE_PAGES = 32, ROW_NO_HUGE };

static const struct weir_option rows[] = {
	{.name = "What to measure", .kind = WEIR_OPTION_HEADING},
	WEIR_OPTION_ROW(WORD, "case", "CASE", "traffic to generate", FIELD(kind),
		.fallback = "established", .words = cases),
	WEIR_OPTION_ROW(SCALED, "flows", "N", "flows in the flow table at the start", FIELD(flows),
		.fallback = "1M", .min = 1, .max = FLOWS_MAX),
	WEIR_OPTION_ROW(SCALED, "table-flows", "N",
		"capacity of the flow table, in flows of --family", FIELD(table_flows),
		.fallback =
			"--flows (case mixed: 1.25 times --flows), but at least 1,048,576 (IPv6: "
			"262,144) except in case new",
		.min = 1, .max = FLOWS_MAX),
	WEIR_OPTION_ROW(WORD, "order", "ORDER", "how the flow of the next packet is chosen",
		FIELD(order), .fallback = "uniform", .words = orders),
	WEIR_OPTION_ROW(REAL, "zipf-exponent", "X", "exponent of --order zipf",
		FIELD(zipf_exponent), .fallback = "1.0", .least = 0.01, .most = 10),
	WEIR_OPTION_ROW(REAL, "new-percent", "X", "percentage of packets that start a flow",
		FIELD(new_percent), .fallback = "established 0, syn-flood 50, mixed 5", .least = 0,
		.most = 100),
	WEIR_OPTION_ROW(SCALED, "packets-per-flow", "N",
		"case mixed: packets of each new flow; other cases: set --packets to N times "
		"--flows",
		FIELD(packets_per_flow), .fallback = "mixed 10", .min = 1, .max = 1000000),
	WEIR_OPTION_ROW(SCALED, "publications", "N",
		"in every other run, another process performs the action of --publish N times per "
		"second; the report compares the runs with and without this action",
		FIELD(publications), .fallback = "none", .min = 1, .max = 1000000),
	WEIR_OPTION_ROW(WORD, "publish", "WHAT",
		"action that the process of --publications performs", FIELD(publish),
		.fallback = "selections", .words = publish_words),
	WEIR_OPTION_ROW(WORD, "family", "FAMILY", "IP version", FIELD(family), .fallback = "4",
		.words = families),
	WEIR_OPTION_ROW(WORD, "protocol", "PROTOCOL", "transport protocol", FIELD(protocol),
		.fallback = "tcp", .words = protocols),
	WEIR_OPTION_ROW(FLAG, "vlan", NULL, "add a VLAN tag", FIELD(vlan)),
	WEIR_OPTION_ROW(SCALED, "packet-bytes", "N", "frame size without FCS", FIELD(packet_bytes),
		.fallback = "minimum for the headers, at least 60", .min = 60,
		.max = WEIR_BENCH_FRAME_MAX),
	WEIR_OPTION_ROW(WORD, "policy", "NAME", "selection policy", FIELD(policy),
		.fallback = "maglev", .words = policies),
	WEIR_OPTION_ROW(WORD, "forwarding", "MODE", "forwarding mode of all backends",
		FIELD(forwarding), .fallback = "ipip", .words = forwardings),
	WEIR_OPTION_ROW(SCALED, "backends", "N", "backends of all services together",
		FIELD(backends), .fallback = "100", .min = 1, .max = WEIR_BACKENDS_MAX),
	WEIR_OPTION_ROW(SCALED, "services", "N", "number of services", FIELD(services),
		.fallback = "1", .min = 1, .max = WEIR_SERVICES_MAX),
	WEIR_OPTION_ROW(SCALED, "slots", "N", "slots of a selection table, a prime number",
		FIELD(slots), .fallback = "65537", .min = 3, .max = WEIR_TABLE_SLOTS_MAX),
	WEIR_OPTION_ROW(SCALED, "half-open-percent", "N",
		"value of half_open_percent of the flow table", FIELD(half_open_percent),
		.fallback = "25", .min = 1, .max = 100),
	WEIR_OPTION_ROW(SCALED, "syn-seen-ms", "N", "value of syn_seen_ms of the flow table",
		FIELD(syn_seen_ms), .fallback = "5000", .min = 1, .max = 3600000),
	WEIR_OPTION_ROW(SCALED, "closing-ms", "N", "value of closing_ms of the flow table",
		FIELD(closing_ms),
		.fallback = "10000; in case mixed 100, so that flows expire during a run", .min = 1,
		.max = 3600000),
	WEIR_OPTION_ROW(FLAG, "bucketed", NULL,
		"divide the flow table into buckets that workers can hand over, as with several "
		"workers",
		FIELD(bucketed)),
	{.name = "How to measure", .kind = WEIR_OPTION_HEADING},
	WEIR_OPTION_ROW(WORD, "headers", "WHERE",
		"location of the packet headers when the pipeline reads them", FIELD(headers),
		.fallback = "warm", .words = headers),
	WEIR_OPTION_ROW(SCALED, "packets", "N", "packets per run", FIELD(packets), .fallback = "4M",
		.min = 64, .max = 1000000000000),
	WEIR_OPTION_ROW(REAL, "seconds", "X",
		"duration of a run including packet generation, instead of --packets",
		FIELD(seconds), .least = 0.001, .most = 3600),
	WEIR_OPTION_ROW(SCALED, "runs", "N", "number of runs", FIELD(runs), .fallback = "10",
		.min = 1, .max = 100000),
	WEIR_OPTION_ROW(SCALED, "repeats", "N",
		"repeat all runs N times from the same state and report the lowest cost of each "
		"burst, because interrupts delay different bursts in each repetition",
		FIELD(repeats), .fallback = "none", .min = 2, .max = 1000),
	WEIR_OPTION_ROW(SCALED, "burst", "N", "packets per call of the pipeline", FIELD(burst),
		.fallback = "64", .min = 1, .max = WEIR_BURST),
	WEIR_OPTION_ROW(SCALED, "buffers", "N", "packet buffers in use", FIELD(buffers),
		.fallback = "1024", .min = WEIR_BURST, .max = 1u << 20),
	WEIR_OPTION_ROW(SCALED, "core", "N", "CPU to run on", FIELD(core),
		.fallback = "the last CPU", .min = 0, .max = 4095),
	[ROW_HUGE_PAGES] = WEIR_OPTION_ROW(CONSTANT, "huge-pages", NULL,
		"fail if no 2 MiB pages are available for the flow table", FIELD(pages),
		.constant = WEIR_BENCH_PAGES_HUGE),
	[ROW_NO_HUGE] = WEIR_OPTION_ROW(CONSTANT, "no-huge", NULL, "use 4 KiB pages", FIELD(pages),
		.constant = WEIR_BENCH_PAGES_SMALL),
	WEIR_OPTION_ROW(SCALED, "seed", "N", "seed of the random numbers", FIELD(seed),
		.fallback = "1", .min = 0, .max = 1000000000000000),
	WEIR_OPTION_ROW(
		FLAG, "json", NULL, "print one JSON object instead of a table", FIELD(json)),
};

static const struct weir_option_list list = {.row = rows, .count = sizeof(rows) / sizeof(rows[0])};
_Static_assert(sizeof(rows) / sizeof(rows[0]) <= WEIR_OPTIONS_MAX,
	"one bit per option must fit in 64 bits");

static const struct weir_help help = {
	.usage = "weir-bench [OPTION]...",
	.about = "Measure the cost of a packet: drive the packet pipeline of the workers with "
		 "generated packets, without a NIC and without root. A separate pass verifies each "
		 "packet.",
	.notes = "Numbers may end in k or M. Exit status: 0 success, 1 a packet was handled "
		 "incorrectly or a run failed, 2 invalid usage.",
	.examples = "weir-bench --flows 1M\n"
		    "weir-bench --flows 128k --backends 10k --services 1k --headers cold\n"
		    "weir-bench --case new --flows 1M --policy least-loaded --json\n"
		    "weir-bench --case syn-flood --flows 700k --new-percent 50\n"
		    "weir-bench --flows 1M --packets 400k --repeats 5\n"
		    "weir-bench --flows 1M --new-percent 1 --publications 1000",
};

const char *weir_bench_help(char *buffer, size_t bytes) {
	return weir_help_text(&list, &help, buffer, bytes);
}

// --- parsing ------------------------------------------------------------------------------

// flows_per_worker is this many times the number of IPv6 flows that fit into a table.
#define IPV6_SHARE (100u / WEIR_FLOW_IPV6_PERCENT)
#define NOT_GIVEN (-1.0)

static void set_defaults(struct weir_bench_options *options) {
	bool mixed = options->kind == WEIR_BENCH_CASE_MIXED;
	uint32_t table =
		options->family == 6 ? DEFAULT_TABLE_FLOWS / IPV6_SHARE : DEFAULT_TABLE_FLOWS;
	uint32_t min;

	if (options->new_percent == NOT_GIVEN) {
		static const double percent[] = {[WEIR_BENCH_CASE_ESTABLISHED] = 0,
			[WEIR_BENCH_CASE_NEW] = 100,
			[WEIR_BENCH_CASE_SYN_FLOOD] = 50,
			[WEIR_BENCH_CASE_MIXED] = 5};

		options->new_percent = percent[options->kind];
	}
	if (options->table_flows == 0) {
		options->table_flows = options->flows;
		if (mixed) { // flows that have ended stay in the table for some time
			options->table_flows += options->flows / 4;
		}
		if (options->kind != WEIR_BENCH_CASE_NEW && options->table_flows < table) {
			options->table_flows = table;
		}
	}
	if (mixed && options->packets_per_flow == 0) {
		options->packets_per_flow = 10;
	}
	if (!mixed && options->packets_per_flow != 0) {
		options->packets = (uint64_t)options->packets_per_flow * options->flows;
	}
	if (options->closing_ms == 0) {
		options->closing_ms = mixed ? 100 : 10000;
	}
	min = weir_bench_frame_min(options->family, IPPROTO_TCP, options->vlan);
	if (options->packet_bytes == 0) {
		options->packet_bytes = min;
	}
}

static int check(const struct weir_bench_options *options, char *why, size_t why_bytes) {
	uint32_t min = weir_bench_frame_min(options->family, IPPROTO_TCP, options->vlan);

	if (options->backends < options->services) {
		snprintf(why, why_bytes,
			"--backends %u: use at least %u, one backend for each service",
			options->backends, options->services);
	} else if (options->family == 6 && options->table_flows > FLOWS_MAX / IPV6_SHARE) {
		snprintf(why, why_bytes,
			"--table-flows %u: a flow table holds at most %u IPv6 flows",
			options->table_flows, FLOWS_MAX / IPV6_SHARE);
	} else if (options->flows > options->table_flows) {
		snprintf(why, why_bytes,
			"--flows %u: the flow table holds %u flows; raise --table-flows",
			options->flows, options->table_flows);
	} else if (options->packet_bytes < min) {
		snprintf(why, why_bytes, "--packet-bytes %u: the headers need %u bytes",
			options->packet_bytes, min);
	} else if (options->kind == WEIR_BENCH_CASE_NEW && options->new_percent != 100) {
		snprintf(why, why_bytes,
			"--new-percent: in case new, all packets start new flows; omit this "
			"option");
	} else if (options->protocol == IPPROTO_UDP &&
		   options->kind != WEIR_BENCH_CASE_ESTABLISHED) {
		snprintf(why, why_bytes, "--protocol udp: case %s measures TCP%s; omit this option",
			weir_bench_case_name(options->kind),
			options->kind == WEIR_BENCH_CASE_MIXED ? " and UDP together" : "");
	} else if (options->kind == WEIR_BENCH_CASE_MIXED &&
		   options->new_percent * options->packets_per_flow > 90) {
		snprintf(why, why_bytes,
			"--new-percent %g with --packets-per-flow %u: more than 90 %% of the "
			"packets would belong to new flows; lower one of the two",
			options->new_percent, options->packets_per_flow);
	} else if (options->repeats > 0 && options->publications > 0) {
		snprintf(why, why_bytes,
			"--repeats cannot be combined with --publications, because publications "
			"delay different bursts in each repetition; omit one of the two");
	} else if (options->buffers < options->burst || options->packets < options->burst) {
		snprintf(why, why_bytes,
			"--packets and --buffers: use at least the value of --burst");
	} else {
		return 0;
	}
	return -EINVAL;
}

uint32_t weir_bench_flows_per_worker(const struct weir_bench_options *options) {
	return options->family == 6 ? options->table_flows * IPV6_SHARE : options->table_flows;
}

int weir_bench_options_parse(
	int argc, char **argv, struct weir_bench_options *ret, char *why, size_t why_bytes) {
	const uint64_t both = UINT64_C(1) << ROW_HUGE_PAGES | UINT64_C(1) << ROW_NO_HUGE;
	struct weir_command_line line;
	struct weir_bench_options options = {.flows = 1000000,
		.policy = WEIR_POLICY_MAGLEV,
		.family = 4,
		.protocol = IPPROTO_TCP,
		.backends = 100,
		.services = 1,
		.slots = 65537,
		.burst = WEIR_BURST,
		.buffers = 1024,
		.runs = 10,
		.half_open_percent = 25,
		.syn_seen_ms = 5000,
		.core = -1,
		.packets = 4000000,
		.seed = 1,
		.new_percent = NOT_GIVEN,
		.zipf_exponent = 1};
	int r = weir_command_line_parse(&list, argc, argv, &options, &line, why, why_bytes);

	if (r == 0 && (line.given & both) == both) {
		snprintf(why, why_bytes,
			"--huge-pages and --no-huge exclude each other; use one of the two");
		r = -EINVAL;
	}
	if (r < 0) {
		return r;
	}
	options.help = line.help;
	options.version = line.version;
	set_defaults(&options);
	r = options.help || options.version ? 0 : check(&options, why, why_bytes);
	if (r == 0) {
		*ret = options;
	}
	return r;
}
