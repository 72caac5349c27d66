// SPDX-License-Identifier: BSD-3-Clause
//
// Checks whether a program or tunnel devices decapsulate packets on the backend, and which
// forwarding modes are accepted.
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "decap_loader.h"
#include "doctor_checks.h"
#include "doctor_tunnels.h"
#include "listeners.h"
#include "plural.h"

#define LOOK_S 3u // time between two readings of the counter of refused packets
#define DECAP_ENV "/etc/weir/decap.env"

// Returns whether a socket is bound to this UDP port, by a program or by the kernel (ip fou).
// unknown: value to return if the kernel does not list UDP sockets.
static bool has_udp_port(uint16_t port, bool unknown) {
	const int fd = weir_socket_diag_open();
	uint32_t count = 0;
	int r;

	if (fd < 0) {
		return unknown;
	}
	r = weir_listeners_count(fd, IPPROTO_UDP, &port, 1, &count);
	close(fd);
	return r < 0 ? unknown : count > 0;
}

static void report_refused(struct weir_agent_doctor *doctor, const struct weir_decap_stats *stats) {
	const char *interface = doctor->options->interface;
	const uint64_t before = stats->result[WEIR_DECAP_SOURCE].packets;
	char why[256], text[WEIR_DECAP_SOURCES_BYTES];
	struct weir_decap_stats later = *stats;
	struct weir_decap_sources sources;
	uint64_t refused;

	if (before == 0) {
		return;
	}
	sleep(LOOK_S); // refused packets may be old: see whether the counter still increases
	(void)weir_decap_stats_of(interface, &later, why, sizeof(why));
	(void)weir_decap_refused_of(interface, &sources);
	weir_decap_sources_text(&sources, text);
	refused = later.result[WEIR_DECAP_SOURCE].packets;
	if (refused == before) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, interface,
			"%" PRIu64
			" tunnel packet%s refused so far, because their source is not in --from "
			"(last: %s); none in the last %u s",
			refused, weir_plural(refused), text, LOOK_S);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, interface,
			"%" PRIu64
			" tunnel packet%s refused: their source is not in --from (last: %s). If "
			"they are from a balancer, add this source to --from (" DECAP_ENV
			" sets --from of the service weir-decap)",
			refused, weir_plural(refused), text);
		weir_findings_cure(
			&doctor->findings, "editor " DECAP_ENV " && systemctl restart weir-decap");
	}
}

// --- weir-agent decap ---------------------------------------------------------------------

static void report_missing(
	struct weir_agent_doctor *doctor, const struct weir_decap_modes *modes, const char *mode) {
	char text[WEIR_DECAP_MODES_BYTES];

	weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, doctor->options->interface,
		"weir-agent decap accepts %s: it passes packets of the forwarding mode %s to the "
		"kernel",
		weir_decap_modes_text(modes, text), mode);
	weir_findings_cure(
		&doctor->findings, "editor " DECAP_ENV " && systemctl restart weir-decap");
}

static void report_modes(struct weir_agent_doctor *doctor, const struct weir_decap_modes *modes,
	const struct weir_decap_stats *stats) {
	const struct weir_agent_options *options = doctor->options;
	const uint32_t needed = options->forwardings;
	const uint64_t other_keys = stats->result[WEIR_DECAP_GRE_KEY].packets;
	char gue[32];

	if ((needed & weir_agent_forwarding(WEIR_FORWARDING_IPIP)) != 0 && !modes->ipip) {
		report_missing(doctor, modes, "ipip");
	}
	if ((needed & weir_agent_forwarding(WEIR_FORWARDING_GUE)) != 0 &&
		modes->gue_port != options->gue_port) {
		snprintf(gue, sizeof(gue), "gue (port %u)", options->gue_port);
		report_missing(doctor, modes, gue);
	}
	if ((needed & weir_agent_forwarding(WEIR_FORWARDING_GRE)) != 0 && !modes->gre) {
		report_missing(doctor, modes, "gre");
	}
	if (other_keys > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, options->interface,
			"%" PRIu64
			" GRE packet%s passed to the kernel so far, because their key is not %u: "
			"compare gre_key of the balancers with --gre-key",
			other_keys, weir_plural(other_keys), modes->gre_key);
	}
	if (modes->gue_port != 0 && has_udp_port(modes->gue_port, false)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, options->interface,
			"a socket is bound to UDP port %u, but weir-agent decap takes all packets "
			"to this port as GUE; if a program uses the port, exclude gue with "
			"--forwarding, or choose another --gue-port",
			modes->gue_port);
		weir_findings_cure(&doctor->findings, "ss -ulnp sport = :%u", modes->gue_port);
	}
}

static void report_attached(
	struct weir_agent_doctor *doctor, const struct weir_decap_stats *stats) {
	const char *interface = doctor->options->interface;
	char why[256] = "", text[WEIR_DECAP_MODES_BYTES];
	struct weir_decap_modes modes;

	if (weir_decap_modes_of(interface, &modes, why, sizeof(why))) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, interface,
			"forwarding modes of weir-agent decap not checked: %s", why);
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
		"weir-agent decap accepts %s; decapsulated packets so far: %" PRIu64,
		weir_decap_modes_text(&modes, text),
		(uint64_t)stats->result[WEIR_DECAP_DECAPSULATED].packets);
	report_modes(doctor, &modes, stats);
	report_refused(doctor, stats);
}

// --- tunnel devices -----------------------------------------------------------------------

static void report_devices(struct weir_agent_doctor *doctor, const struct weir_tunnels *tunnels) {
	char list[256] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < tunnels->count && used < sizeof(list); i++) {
		const struct weir_tunnel *tunnel = &tunnels->list[i];

		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s (%s)",
			i > 0 ? ", " : "", tunnel->name, weir_tunnel_type(tunnel));
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_OK, doctor->options->interface,
		"weir-agent decap is not attached; tunnel devices that decapsulate: %s", list);
}

// Report the tunnel devices, and the modes that these devices do not decapsulate.
static void report_tunnels(struct weir_agent_doctor *doctor, const struct weir_tunnels *tunnels) {
	static const char *const devices[] = {[WEIR_FORWARDING_IPIP] = "ipip, sit or ip6tnl",
		[WEIR_FORWARDING_GUE] = "ipip, sit or ip6tnl",
		[WEIR_FORWARDING_GRE] = "gre or ip6gre"};
	const struct weir_agent_options *options = doctor->options;
	const uint32_t modes = weir_tunnels_modes(tunnels);
	const uint16_t port = options->gue_port;

	report_devices(doctor, tunnels);
	for (enum weir_forwarding_mode mode = 0; mode < WEIR_FORWARDING_COUNT; mode++) {
		const uint32_t bit = weir_agent_forwarding(mode);

		if (mode == WEIR_FORWARDING_L2 || (options->forwardings & bit) == 0) {
			continue;
		}
		if ((modes & bit) == 0) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, options->interface,
				"packets of the forwarding mode %s are not decapsulated: there is "
				"no tunnel device of type %s that is up",
				weir_forwarding_name(mode), devices[mode]);
			weir_findings_cure(&doctor->findings, "systemctl enable --now weir-decap");
		} else if (mode == WEIR_FORWARDING_GUE && !has_udp_port(port, true)) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, options->interface,
				"packets of the forwarding mode gue are not decapsulated: no "
				"socket is bound to UDP port %u",
				port);
			weir_findings_cure(&doctor->findings,
				"ip fou add port %u gue; ip -6 fou add port %u gue", port, port);
		}
	}
}

void weir_agent_doctor_check_decap(struct weir_agent_doctor *doctor) {
	const char *interface = doctor->options->interface;
	struct weir_decap_stats stats;
	struct weir_tunnels tunnels;
	char why[256] = "";
	int r;

	if (doctor->options->forwardings == weir_agent_forwarding(WEIR_FORWARDING_L2)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"packets of the forwarding mode l2 need no decapsulation");
		return;
	}
	r = weir_decap_stats_of(interface, &stats, why, sizeof(why));
	weir_tunnels_read(&tunnels);
	if (r == 0) {
		report_attached(doctor, &stats);
	} else if (r != -ENOENT) {
		weir_findings_add(
			&doctor->findings, WEIR_FINDING_NOTICE, interface, "not checked: %s", why);
		if (r == -EPROTO) { // attached by another version
			weir_findings_cure(&doctor->findings, "systemctl restart weir-decap");
		} else {
			weir_findings_cure(
				&doctor->findings, "sudo weir-agent doctor %s", interface);
		}
	} else if (tunnels.count > 0) {
		report_tunnels(doctor, &tunnels);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, interface,
			"packets are not decapsulated: weir-agent decap is not attached, and there "
			"is no tunnel device%s",
			doctor->options->forwardings == 0 ? "; only the forwarding mode l2 needs "
							    "no decapsulation (--forwarding l2)"
							  : "");
		weir_findings_cure(&doctor->findings, "systemctl enable --now weir-decap");
	}
}
