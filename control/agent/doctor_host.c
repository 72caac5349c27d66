// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the network of the backend: decapsulation, VIPs, filters, MTU.
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <unistd.h>

#include "decap_loader.h"
#include "doctor_checks.h"
#include "kernel.h"
#include "plural.h"
#include "tree.h"

#define CLIENT_MTU 1500u
#define LOOK_S 3u // how long refused packets are counted
#define TUNNEL 768 // ARPHRD_TUNNEL: ipip
#define TUNNEL6 769 // ARPHRD_TUNNEL6: ip6tnl
#define SIT 776 // ARPHRD_SIT

// Returns the ARPHRD type of a tunnel device that is up, or 0. Ignores devices that are down: a
// kernel module creates such a device, for example tunl0, when it is loaded.
static int64_t tunnel_of(const char *interface) {
	unsigned int flags = 0;
	int64_t type = 0;
	char text[32];

	(void)weir_tree_number("", &type, "/sys/class/net/%s/type", interface);
	weir_tree_text("", text, sizeof(text), "/sys/class/net/%s/flags", interface);
	(void)sscanf(text, "%x", &flags);
	return (flags & IFF_UP) != 0 && (type == TUNNEL || type == TUNNEL6 || type == SIT) ? type
											   : 0;
}

// Find a tunnel device of the kernel that decapsulates. Returns whether there is such a device.
static bool find_tunnel(char *ret, size_t bytes) {
	DIR *folder = opendir("/sys/class/net");
	struct dirent *entry;
	bool found = false;

	while (folder != NULL && !found && (entry = readdir(folder)) != NULL) {
		found = tunnel_of(entry->d_name) != 0;
		if (found) {
			snprintf(ret, bytes, "%.*s", IF_NAMESIZE, entry->d_name);
		}
	}
	if (folder != NULL) {
		closedir(folder);
	}
	return found;
}

static void report_refused(struct weir_agent_doctor *doctor, const struct weir_decap_stats *stats) {
	const char *interface = doctor->options->interface;
	const uint64_t before = stats->result[WEIR_DECAP_SOURCE].packets;
	struct weir_decap_stats later = *stats;
	uint64_t refused;
	char why[256];

	if (before == 0) {
		return;
	}
	sleep(LOOK_S); // the counter begins with weir-decap: are packets still refused?
	(void)weir_decap_stats_of(interface, &later, why, sizeof(why));
	refused = later.result[WEIR_DECAP_SOURCE].packets;
	if (refused == before) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, interface,
			"%" PRIu64
			" tunnel packet%s refused so far, because their source is not in --from; "
			"none in the last %u s",
			refused, weir_plural(refused), LOOK_S);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, interface,
			"%" PRIu64
			" tunnel packet%s refused: their source is not in --from. If they are "
			"from a balancer, add its address, source_ipv4 or source_ipv6 to --from "
			"(/etc/weir/decap.env sets --from of the service weir-decap). To list the "
			"sources:",
			refused, weir_plural(refused));
		weir_findings_cure(
			&doctor->findings, "tcpdump -n -c 10 -i %s 'ip proto 4 or 41'", interface);
	}
}

void weir_agent_doctor_check_decap(struct weir_agent_doctor *doctor) {
	const char *interface = doctor->options->interface;
	struct weir_decap_stats stats;
	char why[256] = "", tunnel[64];
	int r = weir_decap_stats_of(interface, &stats, why, sizeof(why));

	if (r == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"weir-agent decap is attached, decapsulated packets so far: %" PRIu64,
			(uint64_t)stats.result[WEIR_DECAP_DECAPSULATED].packets);
		report_refused(doctor, &stats);
	} else if (find_tunnel(tunnel, sizeof(tunnel))) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"weir-agent decap is not attached; the tunnel device %s decapsulates",
			tunnel);
	} else if (r == -ENOENT) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, interface,
			"packets are not decapsulated: there is no weir-agent decap and no tunnel "
			"device");
		weir_findings_cure(&doctor->findings, "systemctl enable --now weir-decap");
	} else {
		weir_findings_add(
			&doctor->findings, WEIR_FINDING_NOTICE, interface, "not checked: %s", why);
		weir_findings_cure(&doctor->findings, "sudo weir-agent doctor %s", interface);
	}
}

void weir_agent_doctor_check_loopback(struct weir_agent_doctor *doctor) {
	const uint32_t on_loopback = doctor->host.loopback4 + doctor->host.loopback6;
	const struct weir_agent_options *options = doctor->options;

	for (uint32_t i = 0; i < options->vip_count; i++) {
		const struct weir_address *vip = &options->vips[i];
		const bool four = vip->family == 4;
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
		weir_findings_cure(&doctor->findings, "ip %saddr add %s/%d dev lo",
			four ? "" : "-6 ", text, four ? 32 : 128);
	}
	if (options->vip_count == 0 && on_loopback == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "lo",
			"has no VIP: the kernel drops packets to a VIP that is on no interface; to "
			"check a VIP, run weir-agent doctor --vip VIP");
		weir_findings_cure(&doctor->findings, "ip addr add VIP/32 dev lo");
	} else if (options->vip_count == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "lo",
			"addresses: %u; to check VIPs, use --vip for each VIP", on_loopback);
	}
}

// Returns the effective value of a sysctl key. The kernel uses the value of "all" or the value of
// the interface, whichever is larger.
static int64_t effective(const char *interface, const char *key) {
	int64_t all = 0, own = 0;

	(void)weir_tree_number("", &all, "/proc/sys/net/ipv4/conf/all/%s", key);
	(void)weir_tree_number("", &own, "/proc/sys/net/ipv4/conf/%s/%s", interface, key);
	return all > own ? all : own;
}

static void report_filter(
	struct weir_agent_doctor *doctor, const char *interface, enum weir_finding_level level) {
	const int64_t filter = effective(interface, "rp_filter");
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

// Check the reverse path filter of each tunnel device that decapsulates IPv4 packets. Return routes
// never use such a device, so the strict filter drops all of its packets. Returns the number of
// devices.
static uint32_t report_tunnel_filters(struct weir_agent_doctor *doctor) {
	DIR *folder = opendir("/sys/class/net");
	struct dirent *entry;
	uint32_t count = 0;

	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		int64_t type = tunnel_of(entry->d_name);

		if (type == TUNNEL || type == TUNNEL6) {
			report_filter(doctor, entry->d_name, WEIR_FINDING_FAULT);
			count++;
		}
	}
	if (folder != NULL) {
		closedir(folder);
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

static uint32_t ipv4_of(const struct sockaddr *address) {
	return address != NULL ? ((const struct sockaddr_in *)address)->sin_addr.s_addr : 0;
}

// Find an address of lo that is in the subnet of an address of the interface. Returns 0 if there is
// no such address.
static uint32_t find_vip_on_link(const char *interface) {
	struct ifaddrs *list, *vip, *own;
	uint32_t found = 0;

	if (getifaddrs(&list)) {
		return 0;
	}
	for (vip = list; vip != NULL && found == 0; vip = vip->ifa_next) {
		if (vip->ifa_addr == NULL || vip->ifa_addr->sa_family != AF_INET ||
			(vip->ifa_flags & IFF_LOOPBACK) == 0 ||
			ntohl(ipv4_of(vip->ifa_addr)) >> 24 == IN_LOOPBACKNET) {
			continue;
		}
		for (own = list; own != NULL && found == 0; own = own->ifa_next) {
			uint32_t mask = ipv4_of(own->ifa_netmask);

			if (own->ifa_addr != NULL && own->ifa_addr->sa_family == AF_INET &&
				strcmp(own->ifa_name, interface) == 0 &&
				((ipv4_of(own->ifa_addr) ^ ipv4_of(vip->ifa_addr)) & mask) == 0) {
				found = ipv4_of(vip->ifa_addr);
			}
		}
	}
	freeifaddrs(list);
	return found;
}

void weir_agent_doctor_check_arp(struct weir_agent_doctor *doctor) {
	const char *interface = doctor->options->interface;
	const uint32_t vip = find_vip_on_link(interface);
	char text[INET_ADDRSTRLEN], name[WEIR_SYSCTL_NAME_BYTES];

	if (vip == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"no address of lo is in a subnet of this interface");
	} else if (effective(interface, "arp_ignore") >= 1 &&
		   effective(interface, "arp_announce") >= 2) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"does not answer ARP for addresses of lo");
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, interface,
			"answers ARP for %s, which is in a subnet of this interface: clients may "
			"bypass the balancer",
			inet_ntop(AF_INET, &vip, text, sizeof(text)));
		weir_findings_cure(&doctor->findings,
			"sysctl -w net.ipv4.conf.%s.arp_ignore=1 net.ipv4.conf.%s.arp_announce=2",
			weir_sysctl_name(interface, name), name);
	}
}

// Report the MSS that this host advertises to clients of an address family. Called if the MTU is
// too small.
static void report_mss(struct weir_agent_doctor *doctor, const struct weir_address *any) {
	const uint32_t mtu = doctor->host.mtu,
		       mss = weir_agent_host_mss(&doctor->host, any->family);
	const bool four = any->family == 4;
	const char *family = four ? "" : "IPv6 ", *ip = four ? "ip" : "ip -6";
	struct weir_kernel_route route = {0};
	char subject[IF_NAMESIZE + 8];

	snprintf(subject, sizeof(subject), "%.*s%s", IF_NAMESIZE, doctor->options->interface,
		four ? "" : " IPv6");
	(void)weir_kernel_route(any, &route);
	if (route.advmss > 0 && route.advmss <= mss) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, subject,
			"MTU %u; the advertised MSS is %u", mtu, route.advmss);
	} else if (route.interface[0] == '\0') {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, subject,
			"MTU %u is too small for packets of %u bytes plus outer header, and there "
			"is no %sdefault route with an MSS to check: each route to clients needs "
			"advmss %u",
			mtu, CLIENT_MTU, family, mss);
		weir_findings_cure(&doctor->findings, "%s route get CLIENT | grep advmss", ip);
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, subject,
			"MTU %u is too small for packets of %u bytes plus outer header, and the "
			"%sdefault route does not advertise a smaller MSS: raise the MTU on the "
			"whole path, or lower the MSS",
			mtu, CLIENT_MTU, family);
		// The command repeats the whole line of the route, because the metric identifies
		// the route. The word "expires" and its value are removed, because "ip route
		// change" does not accept them.
		weir_findings_cure(&doctor->findings,
			"%s route change $(%s route show default | head -n 1%s) advmss %u", ip, ip,
			four ? "" : " | sed 's/ expires [^ ]*//'", mss);
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

	if (doctor->host.mtu >= WEIR_AGENT_MTU) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, doctor->options->interface,
			"MTU %u: packets of %u bytes fit with the outer header", doctor->host.mtu,
			CLIENT_MTU);
		return;
	}
	report_mss(doctor, &any4);
	if (serves_ipv6(doctor)) {
		report_mss(doctor, &any6);
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
