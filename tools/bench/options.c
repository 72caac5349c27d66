// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_table.h"
#include "layout.h"
#include "packets.h"
#include "verdict.h"

#define FLOWS_MAX (1u << 28)
#define DEFAULT_TABLE_FLOWS 1048576u // flow_table.flows_per_worker, as configured by default

const char weir_bench_usage[] =
	"Usage: weir-bench [OPTION]...\n"
	"What does a packet cost? Drives the packet pipeline of the workers on generated packets,\n"
	"without a NIC and without root; checks what became of each packet in a pass of its own.\n"
	"\n"
	"What to measure\n"
	"  --case established     packets of flows that the table holds (default)\n"
	"         new             SYNs of new flows, into a full table: each evicts an older one\n"
	"         syn-flood       established flows, first alone and then beside a flood of SYNs\n"
	"         mixed           established, new and ending flows, TCP and UDP\n"
	"  --flows N              flows in the table before it begins (default 1M)\n"
	"  --table-flows N        flows of the family that the table holds (default: --flows,\n"
	"                         in case mixed a quarter more; but for case new, at least\n"
	"                         1,048,576, of IPv6 262,144)\n"
	"  --order uniform|zipf|one   which flow is next: any, a few of them often, always the "
	"same\n"
	"  --zipf-exponent X      of --order zipf (default 1.0)\n"
	"  --new-percent X        share of packets that begin a flow (default: established 0,\n"
	"                         syn-flood 50, mixed 5)\n"
	"  --packets-per-flow N   packets of a new flow, case mixed (default 10); of all flows on\n"
	"                         average in a run, otherwise (sets --packets)\n"
	"  --publications N       a second process publishes a new selection N times a second in\n"
	"                         every other run; both kinds of run are shown\n"
	"  --family 4|6, --protocol tcp|udp, --vlan\n"
	"  --packet-bytes N       of a frame without FCS (default: the shortest, at least 60)\n"
	"  --policy NAME          (default maglev)\n"
	"  --forwarding ipip\n"
	"  --backends N           of all services together (default 100)\n"
	"  --services N           (default 1)\n"
	"  --slots N              of a selection table, a prime (default 65537)\n"
	"  --half-open-percent N, --syn-seen-ms N, --closing-ms N\n"
	"                         settings of the flow table (default 25, 5000, 10000; case "
	"mixed:\n"
	"                         closing 100, so that flows also leave)\n"
	"\n"
	"How to measure\n"
	"  --headers warm|cold    where packet headers are when the pipeline gets them: in L2, as\n"
	"                         behind a NIC that writes to the cache (default), or in memory\n"
	"  --packets N            packets of a run (default 4M)\n"
	"  --seconds X            length of a run with its generation of packets, instead\n"
	"  --runs N               (default 10)\n"
	"  --repeats N            all runs N more times, each from the same start: the least cost\n"
	"                         of a burst is without interrupts, as they do not come at the\n"
	"                         same burst every time (default: none)\n"
	"  --burst N              packets in a call, 1 to 64 (default 64)\n"
	"  --buffers N            packet buffers in use (default 1024)\n"
	"  --core N               CPU to run on (default: the last one)\n"
	"  --huge-pages           fail when there are no 2 MiB pages for the flow table\n"
	"  --no-huge              4 KiB pages\n"
	"  --seed N               of all that is random (default 1)\n"
	"  --json                 one JSON object instead of a table\n"
	"  --help, --version\n"
	"\n"
	"Numbers may end in k or M. Exit status: 0 done; 1 a packet was treated wrongly, or a run\n"
	"failed; 2 wrong usage.\n"
	"\n"
	"Examples:\n"
	"  weir-bench --flows 1M\n"
	"  weir-bench --flows 128k --backends 10k --services 1k --headers cold\n"
	"  weir-bench --case new --flows 1M --policy least-loaded --json\n"
	"  weir-bench --case syn-flood --flows 700k --new-percent 50\n"
	"  weir-bench --flows 1M --packets 400k --repeats 5\n"
	"  weir-bench --flows 1M --new-percent 1 --publications 1000\n";

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

const char *weir_bench_forwarding_name(enum weir_bench_forwarding forwarding) {
	static const char *const names[] = {
#define X(name, key) [WEIR_BENCH_FORWARDING_##name] = (key),
		WEIR_BENCH_FORWARDINGS(X)
#undef X
	};

	return names[forwarding];
}

const char *weir_bench_headers_name(enum weir_bench_headers headers) {
	static const char *const names[] = {
#define X(name, key) [WEIR_BENCH_HEADERS_##name] = (key),
		WEIR_BENCH_HEADERS(X)
#undef X
	};

	return names[headers];
}

// --- one option -----------------------------------------------------------------------------

enum option_kind {
	KIND_FLAG, // sets a bool
	KIND_NUMBER, // uint32_t
	KIND_LONG, // uint64_t
	KIND_REAL, // double
	KIND_WORD, // an enum, by one of `words`
	KIND_VALUE, // a field is set to `value`
};

// The words of a KIND_WORD, with the number that each stands for.
struct word {
	const char *name;
	int value;
};

#define X(name, key) {key, WEIR_BENCH_CASE_##name},
static const struct word cases[] = {WEIR_BENCH_CASES(X){NULL, 0}};
#undef X
#define X(name, key) {key, WEIR_BENCH_ORDER_##name},
static const struct word orders[] = {WEIR_BENCH_ORDERS(X){NULL, 0}};
#undef X
#define X(name, key) {key, WEIR_BENCH_FORWARDING_##name},
static const struct word forwardings[] = {WEIR_BENCH_FORWARDINGS(X){NULL, 0}};
#undef X
#define X(name, key) {key, WEIR_BENCH_HEADERS_##name},
static const struct word headers[] = {WEIR_BENCH_HEADERS(X){NULL, 0}};
#undef X
#define X(name, key, needs) {key, WEIR_POLICY_##name},
static const struct word policies[] = {WEIR_POLICIES(X){NULL, 0}};
#undef X
static const struct word families[] = {{"4", 4}, {"6", 6}, {NULL, 0}};
static const struct word protocols[] = {{"tcp", IPPROTO_TCP}, {"udp", IPPROTO_UDP}, {NULL, 0}};

struct description {
	const char *name;
	enum option_kind kind;
	int value;
	size_t field; // offset in struct weir_bench_options
	double min, max;
	const struct word *words;
	size_t word_bytes; // size of the field of a KIND_WORD
};

#define FIELD(f) .field = offsetof(struct weir_bench_options, f)
#define BYTES(f) sizeof(((struct weir_bench_options *)0)->f)
#define WORD(n, f, list) \
	{.name = n, .kind = KIND_WORD, FIELD(f), .words = list, .word_bytes = BYTES(f)}
#define RANGE(n, k, f, from, to) {.name = n, .kind = k, FIELD(f), .min = from, .max = to}
#define NUMBER(n, f, from, to) RANGE(n, KIND_NUMBER, f, from, to)
#define LONG(n, f, from, to) RANGE(n, KIND_LONG, f, from, to)
#define REAL(n, f, from, to) RANGE(n, KIND_REAL, f, from, to)
#define FLAG(n, f) {.name = n, .kind = KIND_FLAG, FIELD(f)}
#define VALUE(n, f, number) {.name = n, .kind = KIND_VALUE, FIELD(f), .value = number}

static const struct description descriptions[] = {
	WORD("case", kind, cases),
	WORD("order", order, orders),
	WORD("forwarding", forwarding, forwardings),
	WORD("headers", headers, headers),
	WORD("policy", policy, policies),
	WORD("family", family, families),
	WORD("protocol", protocol, protocols),
	NUMBER("flows", flows, 1, FLOWS_MAX),
	NUMBER("table-flows", table_flows, 1, FLOWS_MAX),
	NUMBER("packets-per-flow", packets_per_flow, 1, 1000000),
	NUMBER("backends", backends, 1, WEIR_BACKENDS_MAX),
	NUMBER("services", services, 1, WEIR_SERVICES_MAX),
	NUMBER("slots", slots, 3, WEIR_TABLE_SLOTS_MAX),
	NUMBER("packet-bytes", packet_bytes, 60, WEIR_BENCH_FRAME_MAX),
	NUMBER("burst", burst, 1, WEIR_BURST),
	NUMBER("buffers", buffers, WEIR_BURST, 1u << 20),
	NUMBER("publications", publications, 1, 1000000),
	NUMBER("runs", runs, 1, 100000),
	NUMBER("repeats", repeats, 2, 1000),
	NUMBER("half-open-percent", half_open_percent, 1, 100),
	NUMBER("syn-seen-ms", syn_seen_ms, 1, 3600000),
	NUMBER("closing-ms", closing_ms, 1, 3600000),
	NUMBER("core", core, 0, 4095),
	LONG("packets", packets, 64, 1e12),
	LONG("seed", seed, 0, 1e15),
	REAL("new-percent", new_percent, 0, 100),
	REAL("zipf-exponent", zipf_exponent, 0.01, 10),
	REAL("seconds", seconds, 0.001, 3600),
	FLAG("vlan", vlan),
	FLAG("json", json),
	FLAG("help", help),
	FLAG("version", version),
	VALUE("huge-pages", pages, WEIR_BENCH_PAGES_HUGE),
	VALUE("no-huge", pages, WEIR_BENCH_PAGES_SMALL),
};
#define DESCRIPTIONS (sizeof(descriptions) / sizeof(descriptions[0]))

static int read_real(const char *text, double *ret) {
	double value;
	char *end;

	if (strspn(text, "0123456789.") == 0 || text[strcspn(text, "xXeE")] != '\0') {
		return -EINVAL;
	}
	errno = 0;
	value = strtod(text, &end);
	if (errno != 0 || end == text || !isfinite(value)) {
		return -EINVAL;
	}
	if (*end == 'k' || *end == 'M') {
		value *= *end == 'k' ? 1e3 : 1e6;
		end++;
	}
	if (*end != '\0') {
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

// Store in a field of 1 to 4 bytes.
static void store_word(void *field, size_t bytes, int value) {
	uint32_t number = (uint32_t)value;
	uint8_t byte = (uint8_t)value;

	if (bytes == 1) {
		memcpy(field, &byte, 1);
	} else {
		memcpy(field, &number, sizeof(number));
	}
}

static int set_word(
	const struct description *d, const char *text, void *field, char *why, size_t why_bytes) {
	char list[256] = "";

	for (const struct word *word = d->words; word->name != NULL; word++) {
		if (strcmp(word->name, text) == 0) {
			store_word(field, d->word_bytes, word->value);
			return 0;
		}
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			word == d->words ? "" : ", ", word->name);
	}
	snprintf(why, why_bytes, "--%s %s: expected %s%s", d->name, text,
		d->words[1].name != NULL ? "one of " : "", list);
	return -EINVAL;
}

static int set_number(
	const struct description *d, const char *text, void *field, char *why, size_t why_bytes) {
	double value = 0;
	uint32_t number;
	uint64_t longer;
	int error = read_real(text, &value);

	if (error == 0 && (value < d->min || value > d->max)) {
		error = -EINVAL;
	}
	if (error == 0 && d->kind != KIND_REAL && value != floor(value)) {
		error = -EINVAL;
	}
	if (error < 0) {
		snprintf(why, why_bytes, "--%s %s: expected a %snumber from %.15g to %.15g",
			d->name, text, d->kind == KIND_REAL ? "" : "whole ", d->min, d->max);
		return error;
	}
	if (d->kind == KIND_REAL) {
		memcpy(field, &value, sizeof(value));
	} else if (d->kind == KIND_LONG) {
		longer = (uint64_t)value;
		memcpy(field, &longer, sizeof(longer));
	} else {
		number = (uint32_t)value;
		memcpy(field, &number, sizeof(number));
	}
	return 0;
}

static int set_option(const struct description *d, const char *text,
	struct weir_bench_options *options, char *why, size_t why_bytes) {
	void *field = (uint8_t *)options + d->field;
	const bool yes = true;

	switch (d->kind) {
	case KIND_FLAG:
		memcpy(field, &yes, sizeof(yes));
		return 0;
	case KIND_VALUE:
		if (options->pages != WEIR_BENCH_PAGES_ANY && (int)options->pages != d->value) {
			snprintf(
				why, why_bytes, "--huge-pages and --no-huge contradict each other");
			return -EINVAL;
		}
		store_word(field, sizeof(uint32_t), d->value);
		return 0;
	case KIND_WORD:
		return set_word(d, text, field, why, why_bytes);
	case KIND_NUMBER:
	case KIND_LONG:
	case KIND_REAL:
		break;
	}
	return set_number(d, text, field, why, why_bytes);
}

// --- all of them ----------------------------------------------------------------------------

#define NOT_GIVEN (-1.0)

static void set_defaults(struct weir_bench_options *options) {
	bool mixed = options->kind == WEIR_BENCH_CASE_MIXED;
	uint32_t usual = options->family == 6 ? DEFAULT_TABLE_FLOWS / WEIR_FLOW_IPV6_SHARE
					      : DEFAULT_TABLE_FLOWS;
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
		if (mixed) { // flows that have ended stay for a while
			options->table_flows += options->flows / 4;
		}
		if (options->kind != WEIR_BENCH_CASE_NEW && options->table_flows < usual) {
			options->table_flows = usual;
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
			"--backends %u: each of %u services needs one; --backends counts them all",
			options->backends, options->services);
	} else if (options->family == 6 &&
		   options->table_flows > FLOWS_MAX / WEIR_FLOW_IPV6_SHARE) {
		snprintf(why, why_bytes, "--table-flows %u: a flow table holds at most %u of IPv6",
			options->table_flows, FLOWS_MAX / WEIR_FLOW_IPV6_SHARE);
	} else if (options->flows > options->table_flows) {
		snprintf(why, why_bytes, "--flows %u: the flow table holds %u, see --table-flows",
			options->flows, options->table_flows);
	} else if (options->packet_bytes < min) {
		snprintf(why, why_bytes, "--packet-bytes %u: these headers need %u",
			options->packet_bytes, min);
	} else if (options->kind == WEIR_BENCH_CASE_NEW && options->new_percent != 100) {
		snprintf(why, why_bytes, "--new-percent: all packets of case new are new flows");
	} else if (options->protocol == IPPROTO_UDP &&
		   options->kind != WEIR_BENCH_CASE_ESTABLISHED) {
		snprintf(why, why_bytes, "--protocol udp: case %s is about TCP%s",
			weir_bench_case_name(options->kind),
			options->kind == WEIR_BENCH_CASE_MIXED ? " and UDP at once" : "");
	} else if (options->kind == WEIR_BENCH_CASE_MIXED &&
		   options->new_percent * options->packets_per_flow > 90) {
		snprintf(why, why_bytes,
			"--new-percent %g with --packets-per-flow %u: more than 90 %% of the "
			"packets would belong to new flows",
			options->new_percent, options->packets_per_flow);
	} else if (options->repeats > 0 && options->publications > 0) {
		snprintf(why, why_bytes,
			"--repeats: publications do not come at the same burst every time");
	} else if (options->buffers < options->burst || options->packets < options->burst) {
		snprintf(why, why_bytes, "--packets and --buffers: at least --burst");
	} else {
		return 0;
	}
	return -EINVAL;
}

uint32_t weir_bench_flows_per_worker(const struct weir_bench_options *options) {
	return options->family == 6 ? options->table_flows * WEIR_FLOW_IPV6_SHARE
				    : options->table_flows;
}

int weir_bench_options_read(
	int argc, char **argv, struct weir_bench_options *ret, char *why, size_t why_bytes) {
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
	struct option table[DESCRIPTIONS + 1] = {0};
	int option, index = 0, error;

	for (size_t i = 0; i < DESCRIPTIONS; i++) {
		bool alone =
			descriptions[i].kind == KIND_FLAG || descriptions[i].kind == KIND_VALUE;

		table[i] = (struct option){
			descriptions[i].name, alone ? no_argument : required_argument, NULL, 1};
	}
	optind = 0; // start anew, whoever used getopt before
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", table, &index)) != -1) {
		if (option != 1) {
			snprintf(why, why_bytes, "%s %s",
				option == ':' ? argv[optind - 1] : "unknown option",
				option == ':' ? "needs an argument" : argv[optind - 1]);
			return -EINVAL;
		}
		error = set_option(&descriptions[index], optarg, &options, why, why_bytes);
		if (error < 0) {
			return error;
		}
	}
	if (optind < argc) {
		snprintf(why, why_bytes, "unexpected operand %s", argv[optind]);
		return -EINVAL;
	}
	set_defaults(&options);
	error = options.help || options.version ? 0 : check(&options, why, why_bytes);
	if (error == 0) {
		*ret = options;
	}
	return error;
}
