// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl stats show: prints all counters once, or rates per second repeatedly.
#pragma once

#include "command.h"

void weir_stats_show(const struct weir_cli *cli, json_t *result); // prints the counters
int weir_stats_run(struct weir_cli *cli, const struct weir_cli_command *command);

// Returns the time of a result of stats.show in milliseconds, to compute the time between two
// results: monotonic_ms, or the wall-clock time time_ms if the result has no monotonic_ms.
json_int_t weir_stats_clock_ms(const json_t *sample);

// Computes the rates between two results of stats.show: {interval_ms, workers: {counter: per
// second}, drops: {reason: per second}, ports: [...], services: [...], backends: [...]}. Other
// values, such as gauges, are copied from `after`. The rate of a counter is null if the counter is
// not in `before`, if it has decreased because the dataplane restarted, or if interval_ms is not
// above 0. The caller owns the result. NULL = out of memory.
json_t *weir_stats_rates(const json_t *before, const json_t *after);

// Print the rates: the result of weir_stats_rates.
void weir_stats_print_rates(FILE *out, const json_t *rates);
