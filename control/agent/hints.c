// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hints.h"
#include "tree.h"

#define OUTER_HEADER_BYTES 40u // IPv6, the larger one

// A sysctl of an interface. Returns -1 when there is none.
static int read_sysctl(const struct weir_hints_host *host, const char *interface, const char *key) {
	char path[512], text[32] = "", *end;
	FILE *file;
	long value;

	snprintf(path, sizeof(path), "%s/net/ipv4/conf/%s/%s", host->sysctl_root, interface, key);
	file = fopen(path, "re");
	if (file == NULL) {
		return -1;
	}
	if (fgets(text, sizeof(text), file) == NULL) {
		text[0] = '\0';
	}
	fclose(file);
	value = strtol(text, &end, 10);
	return end == text || value < 0 || value > INT_MAX ? -1 : (int)value;
}

// For these keys the kernel takes the larger value of "all" and the interface's own.
static int effective(const struct weir_hints_host *host, const char *key) {
	int all = read_sysctl(host, "all", key);
	int own = read_sysctl(host, host->interface, key);

	return all > own ? all : own;
}

static unsigned int hint_vips(const struct weir_hints_host *host, FILE *out) {
	if (host->loopback_addresses > 0) {
		return 0;
	}
	fprintf(out, "hint: no VIP is configured on lo, so the kernel drops its packets. For each "
		     "VIP:\n      ip addr add VIP/32 dev lo      (IPv6: ip -6 addr add VIP/128 dev "
		     "lo)\n");
	return 1;
}

static unsigned int hint_reverse_path(const struct weir_hints_host *host, FILE *out) {
	char name[WEIR_SYSCTL_NAME_BYTES];

	if (effective(host, "rp_filter") != 1) {
		return 0;
	}
	fprintf(out,
		"hint: strict reverse path filtering on %s drops packets from clients whose "
		"return\n      route uses another interface. If there are such clients:\n      "
		"sysctl -w net.ipv4.conf.%s.rp_filter=2\n",
		host->interface, weir_sysctl_name(host->interface, name));
	return 1;
}

static unsigned int hint_arp(const struct weir_hints_host *host, FILE *out) {
	int ignore = effective(host, "arp_ignore"), announce = effective(host, "arp_announce");
	char name[WEIR_SYSCTL_NAME_BYTES];

	if (ignore >= 1 && announce >= 2) {
		return 0;
	}
	fprintf(out,
		"hint: this host answers ARP requests for the VIPs on lo, or announces them. If "
		"the\n"
		"      VIPs are in the subnet of %s rather than routed to the balancers:\n"
		"      sysctl -w net.ipv4.conf.%s.arp_ignore=1 net.ipv4.conf.%s.arp_announce=2\n",
		host->interface, weir_sysctl_name(host->interface, name), name);
	return 1;
}

uint32_t weir_hints_mss(const struct weir_hints_host *host, uint8_t family) {
	uint32_t headers = OUTER_HEADER_BYTES + (family == 4 ? 20 : 40) + 20; // with TCP's

	return host->mtu > headers ? host->mtu - headers : 0;
}

static unsigned int hint_mtu(const struct weir_hints_host *host, FILE *out) {
	if (host->mtu >= WEIR_HINTS_MTU) {
		return 0;
	}
	fprintf(out,
		"hint: the MTU of %s is %u: packets of %u bytes do not fit once encapsulated.\n"
		"      Raise it to %u on the whole path from the balancers, or lower the MSS of\n"
		"      the clients with advmss: ip route change default ... advmss %u\n"
		"      and, for IPv6 clients:   ip -6 route change default ... advmss %u\n",
		host->interface, host->mtu, WEIR_HINTS_MTU - OUTER_HEADER_BYTES, WEIR_HINTS_MTU,
		weir_hints_mss(host, 4), weir_hints_mss(host, 6));
	return 1;
}

unsigned int weir_hints_write(const struct weir_hints_host *host, FILE *out) {
	return hint_vips(host, out) + hint_reverse_path(host, out) + hint_arp(host, out) +
	       hint_mtu(host, out);
}

static bool is_loopback_address(const struct sockaddr *address) {
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	}
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static int count_loopback_addresses(uint32_t *ret) {
	struct ifaddrs *list, *at;
	uint32_t count = 0;

	if (getifaddrs(&list)) {
		return -errno;
	}
	for (at = list; at != NULL; at = at->ifa_next) {
		count += (at->ifa_flags & IFF_LOOPBACK) && at->ifa_addr != NULL &&
			 (at->ifa_addr->sa_family == AF_INET ||
				 at->ifa_addr->sa_family == AF_INET6) &&
			 !is_loopback_address(at->ifa_addr);
	}
	freeifaddrs(list);
	*ret = count;
	return 0;
}

int weir_hints_host_read(const char *interface, struct weir_hints_host *ret) {
	struct weir_hints_host host = {.sysctl_root = "/proc/sys", .interface = interface};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;
	struct ifreq request = {0};

	if (fd < 0) {
		return -errno;
	}
	strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
	r = ioctl(fd, SIOCGIFMTU, &request) ? -errno : 0;
	close(fd);
	if (r) {
		return r;
	}
	host.mtu = (uint32_t)request.ifr_mtu;
	r = count_loopback_addresses(&host.loopback_addresses);
	if (!r) {
		*ret = host;
	}
	return r;
}
