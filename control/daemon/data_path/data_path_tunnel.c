// SPDX-License-Identifier: BSD-3-Clause
#include "data_path_tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "data_path_rules.h"
#include "socket_buffers.h"

#define CLONE_DEVICE "/dev/net/tun"
#define PORT_RANGE "/proc/sys/net/ipv4/ip_local_port_range"

// Opens the device with the index `place`. Returns 0 or negative errno; -EBUSY if another process
// uses the device.
static int open_device(unsigned int place, struct weir_data_path_tunnel *tunnel) {
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_TUN_EXCL};
	int fd, r;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", WEIR_DATA_PATH_DEVICE);
	if (place > 0) {
		snprintf(request.ifr_name, sizeof(request.ifr_name), "%s%u", WEIR_DATA_PATH_DEVICE,
			place);
	}
	fd = open(CLONE_DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (ioctl(fd, TUNSETIFF, &request) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	memcpy(tunnel->name, request.ifr_name, sizeof(tunnel->name));
	tunnel->device = fd;
	tunnel->table = WEIR_DATA_PATH_TABLE + place;
	return 0;
}

// Opens the first device that no other process uses. Returns its index, or negative errno.
static int open_any_device(struct weir_data_path_tunnel *tunnel, char *why, size_t why_bytes) {
	int r = -EBUSY;

	for (unsigned int place = 0; r == -EBUSY && place < WEIR_DATA_PATH_PLACES; place++) {
		r = open_device(place, tunnel);
		if (r == 0) {
			return (int)place;
		}
	}
	snprintf(why, why_bytes, "cannot open a TUN device: %s: %s", CLONE_DEVICE, strerror(-r));
	return r;
}

static int choose_ports(unsigned int place, uint16_t *ret, char *why, size_t why_bytes) {
	unsigned int low = 32768, high = 60999; // default range in Linux
	FILE *file = fopen(PORT_RANGE, "re");
	int r;

	if (file != NULL) {
		if (fscanf(file, "%u %u", &low, &high) != 2 || low > high || high > UINT16_MAX) {
			low = 32768;
			high = 60999;
		}
		fclose(file);
	}
	r = weir_data_path_ports_block((uint16_t)low, (uint16_t)high, place);
	if (r < 0) {
		snprintf(why, why_bytes,
			"no block of %u free ports outside the range %u to %u; run \"sysctl -w "
			"net.ipv4.ip_local_port_range='32768 60999'\"",
			WEIR_DATA_PATH_PORTS, low, high);
		return r;
	}
	*ret = (uint16_t)r;
	return 0;
}

static int set_rules(struct weir_data_path_tunnel *tunnel, uid_t uid, char *why, size_t why_bytes) {
	struct weir_data_path_rules rules = {
		.ifindex = if_nametoindex(tunnel->name),
		.table = tunnel->table,
		.uid = uid,
		.port_first = tunnel->port_first,
		.port_last = (uint16_t)(tunnel->port_first + WEIR_DATA_PATH_PORTS - 1),
	};

	return weir_data_path_rules_set(&rules, &tunnel->ipv6_error, why, why_bytes);
}

// Opens a raw socket. With IPPROTO_RAW, sent packets include their IP header, and the socket
// receives no packets. The socket ignores the kernel's path MTU. A forged ICMP error that quotes an
// echo reply can lower the path MTU to 552 bytes for ten minutes; checks over TLS would then fail.
static int open_raw(int family) {
	int fd = socket(family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW);
	int probe = family == AF_INET ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE, r;

	if (fd < 0) {
		return -errno;
	}
	r = family == AF_INET
		    ? setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe))
		    : setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe));
	if (r < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	weir_socket_send_buffer(fd, WEIR_SEND_BUFFER_BYTES);
	return fd;
}

static int open_sockets(struct weir_data_path_tunnel *tunnel, char *why, size_t why_bytes) {
	int r;

	tunnel->ipv4 = open_raw(AF_INET);
	r = tunnel->ipv4 < 0 ? tunnel->ipv4 : open_raw(AF_INET6);
	if (r < 0 && (tunnel->ipv4 < 0 || r != -EAFNOSUPPORT)) {
		snprintf(why, why_bytes, "cannot open a raw socket: %s", strerror(-r));
		return r;
	}
	tunnel->ipv6 = r < 0 ? -1 : r;
	// Protocol 0: the socket receives nothing. The systemd units of earlier versions forbid
	// packet sockets (EAFNOSUPPORT). This is not an error, because only forwarding l2 needs a
	// packet socket.
	tunnel->link = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (tunnel->link < 0 && errno != EAFNOSUPPORT) {
		r = -errno;
		snprintf(why, why_bytes, "cannot open a packet socket: %s", strerror(-r));
		return r;
	}
	return 0;
}

int weir_data_path_tunnel_open(
	uid_t uid, struct weir_data_path_tunnel *ret, char *why, size_t why_bytes) {
	struct weir_data_path_tunnel tunnel = WEIR_DATA_PATH_TUNNEL_NONE;
	int place = open_any_device(&tunnel, why, why_bytes);
	int r = place;

	if (place >= 0) {
		r = choose_ports((unsigned int)place, &tunnel.port_first, why, why_bytes);
	}
	if (r >= 0) {
		r = open_sockets(&tunnel, why, why_bytes);
	}
	if (r >= 0) {
		r = set_rules(&tunnel, uid, why, why_bytes);
	}
	if (r < 0) {
		weir_data_path_tunnel_close(&tunnel);
		return r;
	}
	*ret = tunnel;
	return 0;
}

static void close_one(int fd) {
	if (fd >= 0) {
		close(fd);
	}
}

void weir_data_path_tunnel_close(struct weir_data_path_tunnel *tunnel) {
	close_one(tunnel->device);
	close_one(tunnel->ipv4);
	close_one(tunnel->ipv6);
	close_one(tunnel->link);
	*tunnel = WEIR_DATA_PATH_TUNNEL_NONE;
}
