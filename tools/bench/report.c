// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <netinet/in.h>

#include "plural.h"
#include "weir_version.h"

static double ns_of(const struct weir_bench_report *report, double cycles) {
	return cycles * 1e9 / (double)report->tsc_hz;
}

// Returns the packet rate in millions of packets per second. cycles: mean cycles per packet,
// including slow bursts.
static double mpps_of(const struct weir_bench_report *report, double cycles) {
	return cycles > 0 ? (double)report->tsc_hz / cycles / 1e6 : 0;
}

static const char *stage_name(unsigned int stage) {
	static const char *const names[] = {
#define X(name, key) [WEIR_STAGE_##name] = (key),
		WEIR_STAGES(X)
#undef X
	};

	return names[stage];
}

static const char *protocol_name(uint8_t protocol) {
	return protocol == IPPROTO_TCP ? "tcp" : "udp";
}

static const char *segment_pages(const struct weir_bench_report *report) {
	return weir_bench_page_name(
		report->huge_segment ? WEIR_BENCH_PAGE_POOL : WEIR_BENCH_PAGE_SMALL);
}

static double memory_per_flow(const struct weir_bench_options *options) {
	uint32_t flows = weir_bench_flows_per_worker(options);

	return (double)weir_bench_flow_bytes(options) / flows;
}

static double ratio(const struct weir_bench_report *report) {
	const struct weir_bench_result *result = report->result;

	if (report->options->kind == WEIR_BENCH_CASE_SYN_FLOOD) {
		return result->main.split.steady / result->base.split.steady;
	}
	return result->main.summary.median / result->base.summary.median;
}

// Returns the number of bursts that took more than 50 us. At 20 Mpps, 1,000 packets arrive in 50
// us.
static uint64_t above_50_us(
	const struct weir_bench_report *report, const struct weir_bench_series *series) {
	uint64_t count = 0;

	for (size_t i = 0; i < series->samples.count; i++) {
		count += ns_of(report, series->samples.sample[i].cycles) > 50e3;
	}
	return count;
}

// --- JSON ---------------------------------------------------------------------------------

static void set_real(json_t *object, const char *key, double value) {
	json_object_set_new(object, key, json_real(value));
}

static void set_number(json_t *object, const char *key, uint64_t value) {
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void set_text(json_t *object, const char *key, const char *value) {
	json_object_set_new(object, key, json_string(value));
}

static void set_flag(json_t *object, const char *key, bool value) {
	json_object_set_new(object, key, json_boolean(value));
}

static json_t *json_summary(const struct weir_bench_summary *summary) {
	json_t *object = json_object();

	set_real(object, "median", summary->median);
	set_real(object, "mean", summary->mean);
	set_real(object, "min", summary->min);
	set_real(object, "max", summary->max);
	set_real(object, "p99", summary->p99);
	set_real(object, "p9999", summary->p9999);
	return object;
}

static void set_series(json_t *object, const struct weir_bench_report *report,
	const struct weir_bench_series *series) {
	json_t *medians = json_array(), *spread = json_object();

	for (uint32_t i = 0; i < report->options->runs; i++) {
		json_array_append_new(medians, json_real(series->medians[i]));
	}
	set_real(spread, "min", series->median_min);
	set_real(spread, "max", series->median_max);
	json_object_set_new(object, "cycles_per_packet", json_summary(&series->summary));
	json_object_set_new(object, "run_medians", medians);
	json_object_set_new(object, "run_spread", spread);
	set_real(object, "ns_per_packet", ns_of(report, series->summary.median));
	set_real(object, "mpps", mpps_of(report, series->summary.mean));
	set_real(object, "slowest_burst_ns", ns_of(report, series->slowest_cycles));
	set_number(object, "bursts", series->samples.count);
	set_number(object, "bursts_above_50_us", above_50_us(report, series));
	set_number(object, "packets", series->packets);
}

static void set_case(json_t *object, const struct weir_bench_report *report) {
	const struct weir_bench_options *options = report->options;

	set_text(object, "version", WEIR_VERSION);
	set_text(object, "case", weir_bench_case_name(options->kind));
	set_number(object, "flows", options->flows);
	set_number(object, "table_flows", options->table_flows);
	set_text(object, "order", weir_bench_order_name(options->order));
	set_number(object, "family", options->family);
	set_text(object, "protocol", protocol_name(options->protocol));
	set_text(object, "policy", weir_policy_name(options->policy));
	set_text(object, "forwarding", weir_forwarding_name(options->forwarding));
	set_number(object, "backends", options->backends);
	set_number(object, "services", options->services);
	set_number(object, "slots", options->slots);
	set_flag(object, "vlan", options->vlan);
	set_flag(object, "bucketed", options->bucketed);
	set_number(object, "packet_bytes", options->packet_bytes);
	set_real(object, "new_percent", options->new_percent);
	set_number(object, "publications_wanted", options->publications);
	set_text(object, "headers", weir_bench_headers_name(options->headers));
	set_number(object, "burst", options->burst);
	set_number(object, "buffers", options->buffers);
	set_number(object, "runs", options->runs);
	set_number(object, "repeats", options->repeats);
	set_number(object, "core", (uint64_t)report->core);
	set_number(object, "seed", options->seed);
}

static json_t *json_stages(const struct weir_bench_result *result) {
	json_t *stages = json_object();

	for (unsigned int i = 0; i < WEIR_STAGE_COUNT; i++) {
		set_real(stages, stage_name(i), result->stage[i]);
	}
	set_real(stages, "rest", result->stage_rest);
	set_real(stages, "expiry", result->stage_idle);
	return stages;
}

static json_t *json_events(const struct weir_bench_result *result) {
	json_t *events = NULL;

	for (unsigned int i = 0; i < WEIR_BENCH_EVENT_COUNT; i++) {
		if (result->counted[i]) {
			events = events != NULL ? events : json_object();
			set_real(events, weir_bench_event_name((enum weir_bench_event)i),
				result->event[i]);
		}
	}
	return events != NULL ? events : json_null();
}

static json_t *json_tally(const struct weir_bench_tally *tally) {
	json_t *object = json_object();

	set_number(object, "packets", tally->packets);
	set_number(object, "hits", tally->hits);
	set_number(object, "new", tally->started);
	set_number(object, "untracked", tally->untracked);
	set_number(object, "evicted", tally->evicted);
	set_number(object, "expired", tally->expired);
	return object;
}

static void set_flood(json_t *object, const struct weir_bench_split *base,
	const struct weir_bench_split *flooded) {
	set_real(object, "cycles_per_established_alone", base->steady);
	set_real(object, "cycles_per_established", flooded->steady);
	set_real(object, "cycles_per_syn", flooded->other);
}

static json_t *json_repeated(const struct weir_bench_report *report) {
	const struct weir_bench_repeated *repeated = &report->result->repeated;
	json_t *object = json_summary(&repeated->summary);

	json_object_set_new(object, "first_time", json_summary(&repeated->first));
	if (report->options->kind == WEIR_BENCH_CASE_SYN_FLOOD) {
		set_real(object, "ratio", repeated->split.steady / repeated->base_split.steady);
		set_flood(object, &repeated->base_split, &repeated->split);
	}
	return object;
}

static void set_base(json_t *object, const struct weir_bench_report *report) {
	const struct weir_bench_result *result = report->result;
	json_t *base = json_object();

	set_series(base, report, &result->base);
	json_object_set_new(object, "base", base);
	set_real(object, "ratio", ratio(report));
	if (report->options->publications > 0) {
		set_real(object, "publications", result->publications);
	}
	if (report->options->kind == WEIR_BENCH_CASE_SYN_FLOOD) {
		set_flood(object, &result->base.split, &result->main.split);
		set_number(object, "established_kept", result->steady_checked);
		// Always 0, because a lost flow makes the run fail, and then there is no report.
		set_number(object, "established_lost", 0);
	}
}

static void set_slow(json_t *object, const struct weir_bench_report *report) {
	const struct weir_bench_result *result = report->result;
	json_t *slow = json_object();

	set_real(slow, "bursts", result->slow_share);
	set_real(slow, "machine", result->slow_machine_share);
	if (report->options->repeats > 0) {
		set_real(slow, "repeated", result->repeated.slow_share);
		json_object_set_new(object, "repeated", json_repeated(report));
	}
	json_object_set_new(object, "above_ten_medians", slow);
}

static int print_json(FILE *out, const struct weir_bench_report *report) {
	const struct weir_bench_result *result = report->result;
	json_t *object = json_object(), *pages = json_object();
	int status;

	set_case(object, report);
	set_series(object, report, &result->main);
	json_object_set_new(object, "machine", json_summary(&result->machine_summary));
	set_slow(object, report);
	json_object_set_new(object, "stages", json_stages(result));
	json_object_set_new(object, "events_per_packet", json_events(result));
	json_object_set_new(object, "counters", json_tally(&result->tally));
	set_number(object, "flows_in_table", result->flows);
	set_number(object, "flows_given_another_tuple", result->moved);
	set_real(object, "memory_bytes_per_flow", memory_per_flow(report->options));
	set_text(pages, "kind", weir_bench_page_name(report->heap->kind));
	set_number(pages, "bytes", report->heap->bytes);
	set_number(pages, "huge_bytes", report->heap->huge_bytes);
	set_text(pages, "segment", segment_pages(report));
	json_object_set_new(object, "pages", pages);
	set_number(object, "tsc_hz", report->tsc_hz);
	set_number(object, "timer_cycles", report->timer_cost);
	set_number(object, "publish_us", report->publish_us);
	set_flag(object, "verified", true); // always true: if a check fails, there is no report
	set_number(object, "verified_packets", result->verified);
	if (result->has_base) {
		set_base(object, report);
	}
	status = json_dumpf(object, out,
			 JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6)) < 0
			 ? -EIO
			 : 0;
	fputc('\n', out);
	json_decref(object);
	return status;
}

// --- text ---------------------------------------------------------------------------------

static void print_case(FILE *out, const struct weir_bench_report *report) {
	const struct weir_bench_options *options = report->options;

	fprintf(out, "case        %s, %u flows in a table for %u, order %s",
		weir_bench_case_name(options->kind), options->flows, options->table_flows,
		weir_bench_order_name(options->order));
	if (options->new_percent > 0) {
		fprintf(out, ", %g %% new", options->new_percent);
	}
	fprintf(out,
		"\npackets     IPv%u %s, %u bytes%s, headers %s, bursts of %u\n"
		"balancer    %s, %s, %u backend%s, %u service%s\n",
		options->family,
		options->kind == WEIR_BENCH_CASE_MIXED ? "tcp and udp"
						       : protocol_name(options->protocol),
		options->packet_bytes, options->vlan ? ", VLAN" : "",
		weir_bench_headers_name(options->headers), options->burst,
		weir_policy_name(options->policy), weir_forwarding_name(options->forwarding),
		options->backends, weir_plural(options->backends), options->services,
		options->services == 1 ? "" : "s");
	fprintf(out,
		"machine     TSC %.1f MHz, CPU %d, pages %s, tables in %s, %u run%s of %" PRIu64
		" packets\n\n",
		(double)report->tsc_hz / 1e6, report->core,
		weir_bench_page_name(report->heap->kind), segment_pages(report), options->runs,
		weir_plural(options->runs), report->result->main.packets / options->runs);
}

static void print_summary(
	FILE *out, const char *name, const struct weir_bench_summary *s, double factor) {
	fprintf(out, "%-14s %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f   ", name, s->median * factor,
		s->mean * factor, s->min * factor, s->p99 * factor, s->p9999 * factor,
		s->max * factor);
}

static void print_series(FILE *out, const struct weir_bench_report *report, const char *name,
	const struct weir_bench_series *series) {
	print_summary(out, name, &series->summary, 1);
	fprintf(out, "%.1f..%.1f\n", series->median_min, series->median_max);
	print_summary(out, "  ns", &series->summary, ns_of(report, 1));
	fprintf(out, "%.2f Mpps\n", mpps_of(report, series->summary.mean));
}

static void print_stages(FILE *out, const struct weir_bench_result *result) {
	double sum = result->stage_rest + result->stage_idle;

	fprintf(out, "cycles per packet of each stage, measured one stage at a time:\n");
	for (unsigned int i = 0; i < WEIR_STAGE_COUNT; i++) {
		fprintf(out, "  %-14s %8.2f\n", stage_name(i), result->stage[i]);
		sum += result->stage[i];
	}
	fprintf(out, "  %-14s %8.2f\n  %-14s %8.2f\n  %-14s %8.2f\n", "rest", result->stage_rest,
		"expiry", result->stage_idle, "sum", sum);
}

static void print_events(FILE *out, const struct weir_bench_result *result) {
	bool any = false;

	for (unsigned int i = 0; i < WEIR_BENCH_EVENT_COUNT; i++) {
		if (result->counted[i]) {
			fprintf(out, "%s%s %.3f", any ? ", " : "per packet: ",
				weir_bench_event_name((enum weir_bench_event)i), result->event[i]);
			any = true;
		}
	}
	fprintf(out,
		any ? "\n" : "cache lines accessed: not available (no hardware event counters)\n");
}

static void print_flood(FILE *out, const char *what, const struct weir_bench_split *base,
	const struct weir_bench_split *flooded) {
	fprintf(out,
		"%s: %.1f cycles without flood, %.1f with flood, ratio %.3f; SYN of the flood: "
		"%.1f cycles\n",
		what, base->steady, flooded->steady, flooded->steady / base->steady,
		flooded->other);
}

static const char *events_name(const struct weir_bench_report *report) {
	switch (report->options->publish) {
	case WEIR_BENCH_PUBLISH_SCRAPES:
		return "scrapes";
	case WEIR_BENCH_PUBLISH_LISTS:
		return "lists";
	case WEIR_BENCH_PUBLISH_CAPTURES:
		return "captures";
	case WEIR_BENCH_PUBLISH_IDLE_CAPTURES:
		return "idle captures";
	default:
		return "publications";
	}
}

static void print_base(FILE *out, const struct weir_bench_report *report) {
	const struct weir_bench_result *result = report->result;

	if (report->options->kind == WEIR_BENCH_CASE_SYN_FLOOD) {
		print_flood(out, "established packet", &result->base.split, &result->main.split);
		if (report->options->repeats > 0) {
			print_flood(out, "repeated", &result->repeated.base_split,
				&result->repeated.split);
		}
		fprintf(out, "established flows lost: 0 of %" PRIu64 "\n", result->steady_checked);
		return;
	}
	fprintf(out,
		"%s: %.0f per second (%u requested), ratio of medians %.3f\n"
		"bursts above 50 us: %" PRIu64 " of %zu, slowest %.1f us; without %s: %" PRIu64
		" of %zu, slowest %.1f us\n",
		events_name(report), result->publications, report->options->publications,
		ratio(report), above_50_us(report, &result->main), result->main.samples.count,
		ns_of(report, result->main.slowest_cycles) / 1e3, events_name(report),
		above_50_us(report, &result->base), result->base.samples.count,
		ns_of(report, result->base.slowest_cycles) / 1e3);
}

static void print_slow(FILE *out, const struct weir_bench_report *report) {
	const struct weir_bench_result *result = report->result;

	print_summary(out, "idle loop", &result->machine_summary, 1);
	fprintf(out, "noise of the machine\n");
	if (report->options->repeats > 0) {
		print_summary(out, "repeated", &result->repeated.summary, 1);
		fprintf(out, "minimum of %u repeat%s, per burst\n", report->options->repeats,
			weir_plural(report->options->repeats));
	}
	fprintf(out,
		"bursts above 10 times the median: %.4f %%; expected from an idle loop: %.4f %%",
		100 * result->slow_share, 100 * result->slow_machine_share);
	if (report->options->repeats > 0) {
		fprintf(out, "; in every repeat: %.4f %%", 100 * result->repeated.slow_share);
	}
	fprintf(out, "\n\n");
}

static void print_text(FILE *out, const struct weir_bench_report *report) {
	const struct weir_bench_result *result = report->result;
	const struct weir_bench_tally *tally = &result->tally;

	print_case(out, report);
	fprintf(out, "%-14s %8s %8s %8s %8s %8s %8s   %s\n", "per packet", "median", "mean", "min",
		"p99", "p99.99", "max", "medians of runs");
	print_series(out, report, "cycles", &result->main);
	if (result->has_base) {
		print_series(out, report,
			report->options->publications > 0 ? "undisturbed" : "alone", &result->base);
		print_base(out, report);
	}
	print_slow(out, report);
	print_stages(out, result);
	print_events(out, result);
	fprintf(out,
		"flows: %" PRIu64 " in the table at the start; of %" PRIu64 " packets %" PRIu64
		" matched a flow, %" PRIu64 " started a flow, %" PRIu64
		" found the table full; %" PRIu64 " flows evicted, %" PRIu64 " expired\n",
		result->flows, tally->packets, tally->hits, tally->started, tally->untracked,
		tally->evicted, tally->expired);
	fprintf(out, "memory: %.1f bytes per flow\n", memory_per_flow(report->options));
	fprintf(out, "verified: all %" PRIu64 " packets, in a separate pass\n", result->verified);
}

int weir_bench_report(FILE *out, const struct weir_bench_report *report) {
	int status = 0;

	if (report->options->json) {
		status = print_json(out, report);
	} else {
		print_text(out, report);
	}
	return fflush(out) != 0 || ferror(out) ? -EIO : status;
}
