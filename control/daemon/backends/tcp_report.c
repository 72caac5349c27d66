// SPDX-License-Identifier: BSD-3-Clause
#include "tcp_report.h"

#include <errno.h>

// Returns the time at which the agent read the statistics, by the agent's clock.
static uint64_t look_ms(const struct weir_agent_tcp *tcp) {
	return tcp->clock_ms > tcp->age_ms ? tcp->clock_ms - tcp->age_ms : 0;
}

void weir_tcp_report_take(
	struct weir_tcp_report *report, const struct weir_agent_tcp *tcp, uint64_t now_ms) {
	// Start new windows after a change of the agent process, because the sums of a new process
	// begin at 0.
	if (report->taken_ms == 0 || report->last.agent != tcp->agent) {
		report->older = report->newer = *tcp;
	} else if (look_ms(tcp) >= look_ms(&report->newer) + WEIR_TCP_WINDOW_MS) {
		report->older = report->newer;
		report->newer = *tcp;
	}
	report->last = *tcp;
	report->taken_ms = now_ms;
}

static double least(double a, double b) {
	return a < b ? a : b;
}

static struct weir_tcp_family_status family_status(const struct weir_agent_tcp_family *now,
	const struct weir_agent_tcp_family *before, uint64_t time_ms) {
	struct weir_tcp_family_status status = {
		.seen = now->connections > 0 || now->segments > 0 || now->sent_bytes > 0,
		.last = *now,
		.retransmitted_percent = -1,
		.sent_bytes_per_s = -1,
	};
	uint64_t segments = now->segments - before->segments;

	if (time_ms == 0 || now->segments < before->segments ||
		now->retransmitted < before->retransmitted ||
		now->sent_bytes < before->sent_bytes) {
		return status;
	}
	status.sent_bytes_per_s =
		(double)(now->sent_bytes - before->sent_bytes) * 1000 / (double)time_ms;
	// Limited to 100 %: retransmitted SYN+ACKs are counted, but they are not data segments.
	if (segments > 0) {
		status.retransmitted_percent =
			least(100, 100 * (double)(now->retransmitted - before->retransmitted) /
					   (double)segments);
	}
	return status;
}

int weir_tcp_report_status(const struct weir_tcp_report *report, uint64_t now_ms,
	uint64_t lifetime_ms, struct weir_tcp_status *ret) {
	const struct weir_agent_tcp *last = &report->last, *older = &report->older;
	uint64_t time_ms = look_ms(last) > look_ms(older) ? look_ms(last) - look_ms(older) : 0;

	if (report->taken_ms == 0 || now_ms - report->taken_ms > lifetime_ms) {
		return -ENOENT;
	}
	*ret = (struct weir_tcp_status){.age_ms = now_ms - report->taken_ms + last->age_ms,
		.partial = last->partial != 0,
		.ipv4 = family_status(&last->ipv4, &older->ipv4, time_ms),
		.ipv6 = family_status(&last->ipv6, &older->ipv6, time_ms)};
	return 0;
}
