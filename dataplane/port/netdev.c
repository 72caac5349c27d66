// SPDX-License-Identifier: BSD-3-Clause
#include "netdev.h"

#include <dirent.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

// Makes an ioctl request about a network interface. ifr: argument and result of the request; this
// function sets the name in it. Returns 0 or negative errno.
static int query(const char *interface, unsigned long request, struct ifreq *ifr) {
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r = 0;

	if (fd < 0) {
		return -errno;
	}
	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", interface);
	if (ioctl(fd, request, ifr) < 0) {
		r = -errno;
	}
	close(fd);
	return r;
}

int weir_netdev_queues(const char *interface) {
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	struct ifreq ifr = {.ifr_data = (void *)&channels};
	int r = query(interface, SIOCETHTOOL, &ifr);

	if (r == 0 && channels.max_combined == 0 && channels.rx_count > 1) {
		return -EMLINK;
	}
	if (r == -EOPNOTSUPP || (r == 0 && channels.max_combined == 0)) {
		return 1;
	}
	return r < 0 ? r : (int)channels.combined_count;
}

bool weir_netdev_spreads(const char *interface) {
	struct ethtool_rxfh_indir indir = {.cmd = ETHTOOL_GRXFHINDIR, .size = 0};
	struct ifreq ifr = {.ifr_data = (void *)&indir};

	return query(interface, SIOCETHTOOL, &ifr) == 0 && indir.size > 0;
}

int weir_netdev_keep_tags(const char *interface) {
	struct ethtool_value flags = {.cmd = ETHTOOL_GFLAGS};
	struct ifreq ifr = {.ifr_data = (void *)&flags};
	int r = query(interface, SIOCETHTOOL, &ifr);

	if (r == -EOPNOTSUPP || (r == 0 && (flags.data & ETH_FLAG_RXVLAN) == 0)) {
		return 0;
	}
	if (r < 0) {
		return r;
	}
	flags.cmd = ETHTOOL_SFLAGS;
	flags.data &= ~(uint32_t)ETH_FLAG_RXVLAN;
	r = query(interface, SIOCETHTOOL, &ifr);
	if (r == 0) {
		flags.cmd = ETHTOOL_GFLAGS; // some drivers ignore the request: read the flags again
		r = query(interface, SIOCETHTOOL, &ifr);
	}
	return r < 0 ? r : (flags.data & ETH_FLAG_RXVLAN) == 0 ? 1 : -EOPNOTSUPP;
}

int weir_netdev_mac(const char *interface, uint8_t ret[6]) {
	struct ifreq ifr = {0};
	int r = query(interface, SIOCGIFHWADDR, &ifr);

	if (r < 0) {
		return r;
	}
	memcpy(ret, ifr.ifr_hwaddr.sa_data, 6);
	return 0;
}

int weir_netdev_mtu(const char *interface) {
	struct ifreq ifr = {0};
	int r = query(interface, SIOCGIFMTU, &ifr);

	return r < 0 ? r : ifr.ifr_mtu;
}

int weir_netdev_set_mtu(const char *interface, uint16_t mtu) {
	struct ifreq ifr = {.ifr_mtu = mtu};

	return query(interface, SIOCSIFMTU, &ifr);
}

bool weir_netdev_has_carrier(const char *interface) {
	struct ifreq ifr = {0};

	return query(interface, SIOCGIFFLAGS, &ifr) == 0 && (ifr.ifr_flags & IFF_UP) != 0 &&
	       (ifr.ifr_flags & IFF_RUNNING) != 0;
}

bool weir_netdev_is_up(const char *interface) {
	struct ifreq ifr = {0};

	return query(interface, SIOCGIFFLAGS, &ifr) == 0 && (ifr.ifr_flags & IFF_UP) != 0;
}

static bool is_packet_socket_of(int fd, unsigned int ifindex) {
	struct sockaddr_ll address = {0};
	socklen_t bytes = sizeof(address);

	return getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
	       address.sll_family == AF_PACKET && address.sll_ifindex == (int)ifindex;
}

int weir_netdev_ignore_outgoing(unsigned int ifindex) {
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (__u32)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0), // drop
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), // keep the whole frame
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	int found = 0, r = 0;

	if (dir == NULL) {
		return -errno;
	}
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);

		if (!is_packet_socket_of(fd, ifindex)) {
			continue;
		}
		found++;
		if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0) {
			r = -errno;
		}
	}
	closedir(dir);
	return r < 0 ? r : found;
}
