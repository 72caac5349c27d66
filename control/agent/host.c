// SPDX-License-Identifier: BSD-3-Clause
#include "host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "forwarding.h"

uint32_t weir_agent_host_outer_bytes(enum weir_forwarding_mode mode) {
	const struct weir_forwarding forwarding = {.mode = (uint8_t)mode, .gre_key = UINT32_MAX};

	return weir_forwarding_overhead(&forwarding, 6);
}

uint32_t weir_agent_host_mss(
	const struct weir_agent_host *host, uint8_t family, uint32_t outer_bytes) {
	// Outer headers, IP header and TCP header.
	uint32_t headers = outer_bytes + (family == 4 ? 20 : 40) + 20;

	return host->mtu > headers ? host->mtu - headers : 0;
}

static bool is_vip4(const struct sockaddr *address) {
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;

	return address->sa_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
}

static bool is_vip6(const struct sockaddr *address) {
	const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)address;

	return address->sa_family == AF_INET6 && !IN6_IS_ADDR_LOOPBACK(&in->sin6_addr);
}

static int count_loopback_addresses(struct weir_agent_host *host) {
	struct ifaddrs *list, *at;

	if (getifaddrs(&list)) {
		return -errno;
	}
	for (at = list; at != NULL; at = at->ifa_next) {
		if ((at->ifa_flags & IFF_LOOPBACK) != 0 && at->ifa_addr != NULL) {
			host->loopback4 += is_vip4(at->ifa_addr);
			host->loopback6 += is_vip6(at->ifa_addr);
		}
	}
	freeifaddrs(list);
	return 0;
}

int weir_agent_host_read(const char *interface, struct weir_agent_host *ret) {
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;
	struct weir_agent_host host = {0};
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
	r = count_loopback_addresses(&host);
	if (!r) {
		*ret = host;
	}
	return r;
}
