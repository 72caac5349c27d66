// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the network of the backend: VIPs, filters, MTU, offloads.
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "decap_loader.h"
#include "doctor_checks.h"
#include "doctor_sysctl.h"
#include "doctor_tunnels.h"
#include "kernel.h"
#include "tree.h"

#define CLIENT_MTU 1500u

void weir_agent_doctor_check_loopback(struct weir_agent_doctor *doctor) {
	const uint32_t on_loopback = doctor->host.loopback4 + doctor->host.loopback6;
	const struct weir_agent_options *options = doctor->options;

	for (uint32_t i = 0; i < options->vip_count; i++) {
		const struct weir_address *vip = &options->vips[i];
		struct weir_kernel_route route = {0};
		char text[INET6_ADDRSTRLEN];

		weir_address_format(vip, text, sizeof(text));
		if (weir_kernel_route(vip, &route) == 0 && route.type == RTN_LOCAL) {
			weir_findings_add(&doctor->findings, WEIR_FINDING_OK, text,
				"is an address of this host");
			continue;
		}
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, text,
			"is not an address of this host: the kernel drops packets to it");
		weir_findings_cure(&doctor->findings,
			vip->family == 4 ? WEIR_CURE_ARP "ip addr add %s/32 dev lo"
					 : "ip -6 addr add %s/128 dev lo",
			text);
	}
	if (options->vip_count == 0 && on_loopback == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "lo",
			"has no VIP: the kernel drops packets to a VIP that is on no interface; to "
			"check a VIP, use --vip VIP");
		weir_findings_cure(&doctor->findings, WEIR_CURE_ARP "ip addr add VIP/32 dev lo");
	} else if (options->vip_count == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "lo",
			"addresses: %u; to check VIPs, use --vip for each VIP", on_loopback);
	}
}

static void report_filter(
	struct weir_agent_doctor *doctor, const char *interface, enum weir_finding_level level) {
	const int64_t filter = weir_sysctl_effective(interface, "rp_filter");
	char name[WEIR_SYSCTL_NAME_BYTES];

	if (filter != 1) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"rp_filter is %" PRId64, filter);
		return;
	}
	weir_findings_add(&doctor->findings, level, interface,
		"rp_filter is 1: the kernel drops packets from clients whose return route uses "
		"another interface");
	weir_findings_cure(&doctor->findings, "sysctl -w net.ipv4.conf.%s.rp_filter=2",
		weir_sysctl_name(interface, name));
}

// Check the reverse path filter of each tunnel device that decapsulates IPv4 packets. Routes to
// clients never lead through such a device, so the strict filter drops all of its packets. Returns
// the number of these devices.
static uint32_t report_tunnel_filters(struct weir_agent_doctor *doctor) {
	struct weir_tunnels tunnels;
	uint32_t count = 0;

	weir_tunnels_read(&tunnels);
	for (uint32_t i = 0; i < tunnels.count; i++) {
		if (weir_tunnel_takes_ipv4(&tunnels.list[i])) {
			report_filter(doctor, tunnels.list[i].name, WEIR_FINDING_FAULT);
			count++;
		}
	}
	return count;
}

void weir_agent_doctor_check_rp_filter(struct weir_agent_doctor *doctor) {
	const char *interface = doctor->options->interface;
	struct weir_decap_stats stats;
	char why[256] = "";

	if (weir_decap_stats_of(interface, &stats, why, sizeof(why)) != -ENOENT ||
		report_tunnel_filters(doctor) == 0) {
		report_filter(doctor, interface, WEIR_FINDING_WARNING);
	}
}

// Returns the forwarding mode whose outer headers must fit into the MTU. With --forwarding, the
// result is the listed mode with the largest headers. Without --forwarding, the result is a mode
// whose packets weir-agent decap has counted, or ipip (the default) if there are no such packets.
static enum weir_forwarding_mode mode_of(const struct weir_agent_doctor *doctor) {
	const uint32_t modes = doctor->options->forwardings;
	enum weir_forwarding_mode largest = WEIR_FORWARDING_L2;
	struct weir_decap_stats stats;
	char why[256];

	for (enum weir_forwarding_mode mode = 0; mode < WEIR_FORWARDING_COUNT; mode++) {
		if ((modes & weir_agent_forwarding(mode)) != 0 &&
			weir_agent_host_outer_bytes(mode) > weir_agent_host_outer_bytes(largest)) {
			largest = mode;
		}
	}
	if (modes != 0) {
		return largest;
	}
	if (weir_decap_stats_of(doctor->options->interface, &stats, why, sizeof(why)) != 0) {
		return WEIR_FORWARDING_IPIP;
	}
	return stats.result[WEIR_DECAP_GUE].packets > 0   ? WEIR_FORWARDING_GUE
	       : stats.result[WEIR_DECAP_GRE].packets > 0 ? WEIR_FORWARDING_GRE
							  : WEIR_FORWARDING_IPIP;
}

// Report the MSS that this host advertises to clients of an address family. Called if the MTU is
// too small.
static void report_mss(struct weir_agent_doctor *doctor, const struct weir_address *any,
	enum weir_forwarding_mode mode) {
	const uint32_t mtu = doctor->host.mtu, outer = weir_agent_host_outer_bytes(mode),
		       mss = weir_agent_host_mss(&doctor->host, any->family, outer);
	const bool four = any->family == 4;
	const char *family = four ? "" : "IPv6 ", *ip = four ? "ip" : "ip -6";
	struct weir_kernel_route route = {0};
	char subject[IF_NAMESIZE + 8], room[64];

	snprintf(subject, sizeof(subject), "%.*s%s", IF_NAMESIZE, doctor->options->interface,
		four ? "" : " IPv6");
	snprintf(room, sizeof(room), "%u bytes plus %u bytes of outer headers (%s)", CLIENT_MTU,
		outer, weir_forwarding_name(mode));
	(void)weir_kernel_route(any, &route);
	if (route.advmss > 0 && route.advmss <= mss) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, subject,
			"MTU %u; the advertised MSS is %u", mtu, route.advmss);
	} else if (route.interface[0] == '\0') {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, subject,
			"MTU %u is too small for packets of %s, and there is no %sdefault route "
			"with an MSS to check: each route to clients needs advmss %u",
			mtu, room, family, mss);
		weir_findings_cure(&doctor->findings, "%s route get CLIENT | grep advmss", ip);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, subject,
			"MTU %u is too small for packets of %s, and the %sdefault route does not "
			"advertise a smaller MSS: raise the MTU on the whole path, or lower the "
			"MSS",
			mtu, room, family);
		// The command repeats the whole route, because the kernel identifies a route also
		// by its metric. advmss must be in front of the next hops if there are several. sed
		// removes words of "ip route show" that "ip route change" rejects: the states, and
		// the ID of a nexthop object (nhid) whose next hops are printed, too.
		weir_findings_cure(&doctor->findings,
			"%s route change advmss %u $(%s -o route show default | head -n 1 | "
			"sed -E 's/ (nhid|expires|advmss( lock)?) [^ ]*//g; "
			"s/ (dead|linkdown|offload|rt_offload|trap|rt_trap)\\b//g; s/\\\\//g')",
			ip, mss, ip);
	}
}

static bool serves_ipv6(const struct weir_agent_doctor *doctor) {
	bool serves = doctor->host.loopback6 > 0;

	for (uint32_t i = 0; i < doctor->options->vip_count; i++) {
		serves = serves || doctor->options->vips[i].family == 6;
	}
	return serves;
}

void weir_agent_doctor_check_mtu(struct weir_agent_doctor *doctor) {
	static const struct weir_address any4 = {.bytes = {198, 18, 0, 1}, .family = 4}; // RFC 2544
	static const struct weir_address any6 = {
		.bytes = {0x20, 0x01, 0, 2, [15] = 1}, .family = 6}; // RFC 5180

	const enum weir_forwarding_mode mode = mode_of(doctor);
	const uint32_t outer = weir_agent_host_outer_bytes(mode);

	if (doctor->host.mtu >= CLIENT_MTU + outer) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, doctor->options->interface,
			"MTU %u: packets of %u bytes fit with %u bytes of outer headers (%s)",
			doctor->host.mtu, CLIENT_MTU, outer, weir_forwarding_name(mode));
		return;
	}
	report_mss(doctor, &any4, mode);
	if (serves_ipv6(doctor)) {
		report_mss(doctor, &any6, mode);
	}
}

void weir_agent_doctor_check_offloads(struct weir_agent_doctor *doctor) {
	const char *interface = doctor->options->interface;
	const bool lro = weir_kernel_flag(interface, ETH_FLAG_LRO) > 0;
	int gro_hw = weir_kernel_feature(interface, "rx-gro-hw");
	char driver[33] = "";

	(void)weir_kernel_driver(interface, driver, sizeof(driver));
	if (strcmp(driver, "virtio_net") == 0 && gro_hw == 1) {
		// The kernel reports "on", but the feature is off while an XDP program is attached.
		gro_hw = 0;
	}
	if (!lro && gro_hw <= 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"no offload (LRO, hardware GRO) merges packets before XDP");
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, interface,
		"%s merges packets before XDP: drivers then refuse XDP or lose packets%s",
		lro ? "LRO" : "hardware GRO",
		!lro && gro_hw == WEIR_KERNEL_FIXED
			? "; the offload can only be switched off where the device is created: in "
			  "QEMU with guest_tso4=off,guest_tso6=off"
			: "");
	if (lro || gro_hw == 1) {
		weir_findings_cure(&doctor->findings, "ethtool -K %s%s%s", interface,
			lro ? " lro off" : "", gro_hw == 1 ? " rx-gro-hw off" : "");
	}
}
