// SPDX-License-Identifier: BSD-3-Clause
//
// The list of metric families: names, types, units, labels and help texts. `key` names the member
// that contains the value of a family, in each row of the scope. The table in
// docs/reference/metrics.md is generated from this list.
//
// Threads: any; constant.
#pragma once

#include <stddef.h>

#include "text.h"

// A scope is METRICS or a part of the reply to metrics.show. A family has one series for each row
// of its scope; with kind STATE, MAP or BUCKETS, it has several. X(NAME, "labels")
#define WEIR_FAMILY_SCOPES(X) \
	X(METRICS, "") /* weir-metrics itself */ \
	X(CONTROL, "") /* control */ \
	X(DATAPLANE, "") /* dataplane */ \
	X(SEGMENT, "") /* segment */ \
	X(AGENTS, "") /* agents */ \
	X(WORKER, "worker") /* workers[] */ \
	X(PORT, "port") /* ports[] */ \
	X(SERVICE, "service") /* rows[] */ \
	X(BACKEND, "service, backend") /* rows[] */ \
	X(TCP, "service, backend, clients") /* rows[] */ \
	X(STEAL, "service") /* flow_steals[] */

enum weir_family_scope {
#define X(name, labels) WEIR_SCOPE_##name,
	WEIR_FAMILY_SCOPES(X)
#undef X
		WEIR_SCOPE_COUNT,
};

enum weir_family_type {
	WEIR_FAMILY_COUNTER,
	WEIR_FAMILY_GAUGE,
	WEIR_FAMILY_HISTOGRAM,
	WEIR_FAMILY_UNKNOWN, // device statistics, whose type (counter or gauge) is unknown
};

enum weir_family_kind {
	WEIR_FAMILY_VALUE, // a number, multiplied by scale, or a boolean
	WEIR_FAMILY_SECONDS_OF_CYCLES, // a number of TSC cycles, converted to seconds
	WEIR_FAMILY_STATE, // a series per state: 1 for the current state, 0 for other states
	WEIR_FAMILY_MAP, // an object {label: number}
	WEIR_FAMILY_INFO, // the value is always 1; the labels are texts
	// an object {buckets: {upper bound: number of values up to this bound}, sum}; the last
	// bound is "+Inf"
	WEIR_FAMILY_BUCKETS,
};

struct weir_family {
	const char *name; // name with its prefix, but without _total
	enum weir_family_type type;
	enum weir_family_kind kind;
	enum weir_family_scope scope;
	const char *unit; // suffix of the name; "" = none
	const char *key; // member of the row; for INFO: the members that become labels, separated
			 // by spaces
	const char *label; // label of STATE, MAP and BUCKETS
	const char *const *states; // states of STATE, terminated by NULL
	double scale; // factor of VALUE and MAP; 0 means 1
	const char *help;
};

extern const struct weir_family weir_families[];
extern const size_t weir_family_count;

// Families that --ipvs-names adds. node_exporter's IPVS collector uses the same names.
extern const struct weir_family weir_ipvs_families[];
extern const size_t weir_ipvs_family_count;
#define WEIR_IPVS_BACKEND_LABELS \
	"local_address, local_port, local_mark, remote_address, remote_port, proto"

const char *weir_family_type_name(enum weir_family_type type); // "counter"
// Writes the names of a family's labels, for example "worker, reason".
void weir_family_labels(const struct weir_family *family, struct weir_text *text);
// Write all families as a table in Markdown.
void weir_families_markdown(struct weir_text *text);
