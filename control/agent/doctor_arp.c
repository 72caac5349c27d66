// SPDX-License-Identifier: BSD-3-Clause
//
// Checks that the backend does not answer ARP requests and neighbour solicitations for VIPs. Linux
// answers a neighbour solicitation only for addresses of the interface that receives it, so IPv6
// VIPs on lo need no setting.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "doctor_checks.h"
#include "doctor_sysctl.h"
#include "tree.h"

static uint32_t ipv4_of(const struct sockaddr *address) {
	return address != NULL ? ((const struct sockaddr_in *)address)->sin_addr.s_addr : 0;
}

// Returns whether an entry of getifaddrs belongs to the interface. An IPv4 address with a label has
// the label as name, such as "eth0:vip".
static bool is_of(const struct ifaddrs *at, const char *interface) {
	const size_t length = strlen(interface);

	return at->ifa_addr != NULL && strncmp(at->ifa_name, interface, length) == 0 &&
	       (at->ifa_name[length] == '\0' || at->ifa_name[length] == ':');
}

static bool is_ipv4_of(const struct ifaddrs *at, const char *interface) {
	return is_of(at, interface) && at->ifa_addr->sa_family == AF_INET;
}

// Returns whether an address is in the subnet of another address of the interface.
static bool is_on_link(const struct ifaddrs *list, const char *interface, uint32_t address) {
	for (const struct ifaddrs *own = list; own != NULL; own = own->ifa_next) {
		if (is_ipv4_of(own, interface) && ipv4_of(own->ifa_addr) != address &&
			((ipv4_of(own->ifa_addr) ^ address) & ipv4_of(own->ifa_netmask)) == 0) {
			return true;
		}
	}
	return false;
}

// Find an address of lo, outside 127.0.0.0/8, that is in the subnet of an address of the interface.
// Returns 0 if there is no such address.
static uint32_t find_vip_on_link(const struct ifaddrs *list, const char *interface) {
	for (const struct ifaddrs *vip = list; vip != NULL; vip = vip->ifa_next) {
		if (vip->ifa_addr != NULL && vip->ifa_addr->sa_family == AF_INET &&
			(vip->ifa_flags & IFF_LOOPBACK) != 0 &&
			ntohl(ipv4_of(vip->ifa_addr)) >> 24 != IN_LOOPBACKNET &&
			is_on_link(list, interface, ipv4_of(vip->ifa_addr))) {
			return ipv4_of(vip->ifa_addr);
		}
	}
	return 0;
}

// Returns the entry of a VIP on an interface, or NULL. If there is one, no setting can prevent
// replies to ARP requests or neighbour solicitations for the VIP without preventing replies for the
// other addresses of the interface.
static const struct ifaddrs *find_vip(
	const struct ifaddrs *list, const char *interface, const struct weir_address *vip) {
	for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
		if (!is_of(at, interface)) {
			continue;
		}
		if (vip->family == 4 && at->ifa_addr->sa_family == AF_INET &&
			memcmp(&((const struct sockaddr_in *)at->ifa_addr)->sin_addr, vip->bytes,
				4) == 0) {
			return at;
		}
		if (vip->family == 6 && at->ifa_addr->sa_family == AF_INET6 &&
			memcmp(&((const struct sockaddr_in6 *)at->ifa_addr)->sin6_addr, vip->bytes,
				16) == 0) {
			return at;
		}
	}
	return NULL;
}

// Returns whether the kernel may remove other addresses of the interface together with a VIP: those
// in the same subnet, if the VIP was the first of them.
static bool takes_others_along(
	const struct ifaddrs *list, const char *interface, const struct ifaddrs *vip) {
	const uint32_t mask = ipv4_of(vip->ifa_netmask);

	for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
		if (at != vip && is_ipv4_of(at, interface) && ipv4_of(at->ifa_netmask) == mask &&
			((ipv4_of(at->ifa_addr) ^ ipv4_of(vip->ifa_addr)) & mask) == 0) {
			return weir_sysctl_effective(interface, "promote_secondaries") == 0;
		}
	}
	return false;
}

// Adds the command that moves a VIP from the interface to lo.
static void cure_vip_of_interface(struct weir_agent_doctor *doctor, const struct ifaddrs *list,
	const struct weir_address *vip, const struct ifaddrs *found) {
	const char *interface = doctor->options->interface;
	const bool four = vip->family == 4;
	char text[INET6_ADDRSTRLEN], name[WEIR_SYSCTL_NAME_BYTES], keep[96] = "", add[96] = "";

	weir_address_format(vip, text, sizeof(text));
	if (four && takes_others_along(list, interface, found)) {
		snprintf(keep, sizeof(keep), "sysctl -w net.ipv4.conf.%s.promote_secondaries=1 && ",
			weir_sysctl_name(interface, name));
	}
	if (find_vip(list, "lo", vip) == NULL) {
		snprintf(add, sizeof(add), " && ip %saddr add %s/%d dev lo", four ? "" : "-6 ",
			text, four ? 32 : 128);
	}
	weir_findings_cure(&doctor->findings,
		"%sip addr del $(ip -o addr show dev %s to %s | awk '{print $4; exit}') dev %s%s",
		keep, interface, text, interface, add);
}

// Reports a VIP that is an address of the interface. Hosts on the link send ARP requests for an
// IPv4 VIP outside of their subnets only if a route or an address makes them do so, which cannot be
// seen here.
static void report_vip_of_interface(struct weir_agent_doctor *doctor, const struct ifaddrs *list,
	const struct weir_address *vip) {
	const char *interface = doctor->options->interface;
	const struct ifaddrs *found = find_vip(list, interface, vip);
	const bool four = vip->family == 4;
	char text[INET6_ADDRSTRLEN];

	if (found == NULL) {
		return;
	}
	weir_address_format(vip, text, sizeof(text));
	if (!four || is_on_link(list, interface, ipv4_of(found->ifa_addr))) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, text,
			"is an address of %s, which answers %s for this address: clients may "
			"bypass the balancer",
			interface, four ? "ARP requests" : "neighbour solicitations");
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, text,
			"is an address of %s, which answers ARP requests for this address: if the "
			"VIP is in a subnet of another host on the link, such as a router, clients "
			"may bypass the balancer",
			interface);
	}
	cure_vip_of_interface(doctor, list, vip, found);
}

// Returns whether the host answers ARP requests on the interface for addresses of lo, or sends ARP
// requests with these addresses as source (arp_announce 0 and 1). Values 1, 2 and 8 of arp_ignore
// prevent the answers; value 3 prevents them only for addresses with scope host.
static bool answers_for_lo(const char *interface) {
	const int64_t ignore = weir_sysctl_effective(interface, "arp_ignore");

	return (ignore != 1 && ignore != 2 && ignore != 8) ||
	       weir_sysctl_effective(interface, "arp_announce") < 2;
}

static void report_lo(struct weir_agent_doctor *doctor, uint32_t vip) {
	const char *interface = doctor->options->interface;
	char text[INET_ADDRSTRLEN], name[WEIR_SYSCTL_NAME_BYTES];
	int64_t all = 0;

	if (vip == 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"no address of lo is in a subnet of this interface");
	} else if (!answers_for_lo(interface)) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, interface,
			"does not answer ARP for addresses of lo");
	} else {
		weir_findings_add(&doctor->findings, WEIR_FINDING_FAULT, interface,
			"answers ARP for %s, which is in a subnet of this interface: clients may "
			"bypass the balancer",
			inet_ntop(AF_INET, &vip, text, sizeof(text)));
		(void)weir_tree_number("", &all, "/proc/sys/net/ipv4/conf/all/arp_ignore");
		weir_findings_cure(&doctor->findings,
			"sysctl -w %snet.ipv4.conf.%s.arp_ignore=1 net.ipv4.conf.%s.arp_announce=2",
			all > 2 ? "net.ipv4.conf.all.arp_ignore=1 " : "",
			weir_sysctl_name(interface, name), name);
	}
}

void weir_agent_doctor_check_arp(struct weir_agent_doctor *doctor) {
	const struct weir_agent_options *options = doctor->options;
	struct ifaddrs *list = NULL;

	(void)getifaddrs(&list);
	for (uint32_t i = 0; i < options->vip_count; i++) {
		report_vip_of_interface(doctor, list, &options->vips[i]);
	}
	report_lo(doctor, find_vip_on_link(list, options->interface));
	freeifaddrs(list);
}
