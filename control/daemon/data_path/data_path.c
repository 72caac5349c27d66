// SPDX-License-Identifier: BSD-3-Clause
#include "data_path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend_row.h"
#include "data_path_netlink.h"
#include "data_path_packet.h"
#include "data_path_ports.h"
#include "data_path_return.h"

#define PACKET_BYTES 2048 // buffer size, above the MTU of the device
// Maximum number of packets per call of take_packets. Many checks can start and end in one
// iteration of the loop.
#define PACKETS_PER_TURN 4096
// Maximum number of ports to try when a socket is bound, because other processes can use some of
// the ports.
#define BIND_TRIES 16
#define SOURCE_PORT 9 // the discard port; no packet is sent to it
// Spreads the ports of connections over the values of a flow hash.
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)
#define ADDRESS_MS 1000

struct flow { // the latest flow that used a port
	struct weir_backend_row row; // headers that precede the flow's packets
	uint32_t ifindex; // for forwarding l2: interface of the backend's link
	struct weir_address backend, local, vip; // vip.family 0 = the port was not used yet
	uint16_t vip_port;
	uint8_t protocol;
	bool open;
	bool answered; // this host has acknowledged a packet from the backend
	// Loop time at which the SYN or the first datagram was sent; after that, loop time of the
	// first ACK.
	uint64_t step_ms;
	uint32_t packets; // number of packets, including packets whose forwarding failed
	int error; // error of forwarding the last packet
};

struct weir_data_path {
	struct weir_data_path_tunnel tunnel;
	// Reads packets that the kernel sends by itself: acknowledgements, retransmissions.
	uv_poll_t poll;
	uv_prepare_t prepare; // runs before the loop waits: forwards packets without delay
	unsigned int open_handles;
	weir_data_path_lost_fn on_lost;
	void *context;
	int source_socket4, source_socket6; // datagram sockets, to look up source addresses
	struct weir_data_path_netlink kernel;
	struct {
		uint64_t until_ms; // loop time until which `found` is used
		bool found;
	} own_address[2]; // whether this host has an address of IPv4 [0], of IPv6 [1]
	bool lost;
	struct weir_data_path_ports ports;
	struct flow flows[WEIR_DATA_PATH_PORTS]; // index: port minus ports.first
};

static bool is_unspecified(const struct weir_address *address) {
	static const uint8_t none[sizeof(address->bytes)];

	return address->family != 0 && memcmp(address->bytes, none, sizeof(none)) == 0;
}

static socklen_t socket_address(
	const struct weir_address *address, uint16_t port, struct sockaddr_storage *ret) {
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;

	memset(ret, 0, sizeof(*ret));
	if (address->family == 4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, address->bytes, sizeof(in->sin_addr));
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, address->bytes, sizeof(in6->sin6_addr));
	return sizeof(*in6);
}

// --- packets of the device ----------------------------------------------------------------

// Sends a packet to the backend's MAC address. The kernel builds the Ethernet header.
static int forward_link(const struct weir_data_path *path, const struct flow *flow,
	const uint8_t *packet, size_t bytes) {
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
		.sll_protocol = htons(packet[0] >> 4 == 4 ? ETH_P_IP : ETH_P_IPV6),
		.sll_ifindex = (int)flow->ifindex,
		.sll_halen = ETH_ALEN};

	memcpy(to.sll_addr, flow->row.header, ETH_ALEN);
	return sendto(path->tunnel.link, packet, bytes, MSG_DONTWAIT, (struct sockaddr *)&to,
		       sizeof(to)) < 0
		       ? -errno
		       : 0;
}

static int forward(const struct weir_data_path *path, const struct flow *flow, uint16_t port,
	const uint8_t *packet, size_t bytes) {
	uint8_t header[WEIR_OUTER_HEADER_BYTES];
	struct sockaddr_storage to;
	struct iovec parts[2] = {
		{.iov_base = header + flow->row.l2_bytes,
			.iov_len = flow->row.header_bytes - flow->row.l2_bytes},
		{.iov_base = (uint8_t *)(uintptr_t)packet, .iov_len = bytes},
	};
	struct msghdr message = {.msg_name = &to,
		.msg_namelen = socket_address(&flow->backend, 0, &to),
		.msg_iov = parts,
		.msg_iovlen = 2};
	int fd = flow->backend.family == 4 ? path->tunnel.ipv4 : path->tunnel.ipv6;

	if (flow->row.outer_family == 0) {
		return forward_link(path, flow, packet, bytes);
	}
	weir_backend_row_fill(&flow->row, packet, bytes, port * HASH_FACTOR, header);
	return sendmsg(fd, &message, MSG_DONTWAIT) < 0 ? -errno : 0;
}

// Forwards a packet from the device to the backend of its flow. Any process on this host can send
// packets through the device (SO_BINDTODEVICE). Therefore only packets of an open flow, and the RST
// of a closed flow, are forwarded.
static void take_packet(struct weir_data_path *path, const uint8_t *packet, size_t bytes) {
	struct weir_data_path_packet read;
	struct flow *flow;

	if (!weir_data_path_packet_read(packet, bytes, &read) ||
		read.source_port < path->ports.first ||
		read.source_port - path->ports.first >= (int)WEIR_DATA_PATH_PORTS) {
		return;
	}
	flow = &path->flows[read.source_port - path->ports.first];
	if ((flow->open || read.reset) && flow->protocol == read.protocol &&
		flow->vip_port == read.destination_port &&
		weir_address_equal(&flow->vip, &read.destination) &&
		(is_unspecified(&flow->local) || weir_address_equal(&flow->local, &read.source))) {
		flow->local = read.source; // the kernel's choice, if `local` was unspecified
		if (flow->packets == 0 || (read.acknowledges && !flow->answered)) {
			flow->step_ms = uv_now(path->poll.loop);
		}
		flow->error = forward(path, flow, read.source_port, packet, bytes);
		flow->packets++;
		flow->answered |= read.acknowledges;
	}
}

static void lose(struct weir_data_path *path) {
	path->lost = true;
	uv_poll_stop(&path->poll);
	uv_prepare_stop(&path->prepare);
	path->on_lost(path->context, path->tunnel.name);
}

static void take_packets(struct weir_data_path *path) {
	uint8_t packet[PACKET_BYTES];

	for (int i = 0; i < PACKETS_PER_TURN && !path->lost; i++) {
		ssize_t got = read(path->tunnel.device, packet, sizeof(packet));

		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0 && errno != EAGAIN) {
			lose(path);
		}
		if (got <= 0) {
			return;
		}
		take_packet(path, packet, (size_t)got);
	}
}

static void on_packets(uv_poll_t *poll, int status, int events) {
	(void)status;
	(void)events; // read() returns the error of the device, if there is one
	take_packets(poll->data);
}

static void before_wait(uv_prepare_t *prepare) {
	take_packets(prepare->data);
}

// --- flows --------------------------------------------------------------------------------

// Gets the source address that the kernel chooses for a destination by its normal routes. Sends no
// packet.
static int source_for(const struct weir_data_path *path, const struct weir_address *to,
	struct weir_address *ret) {
	static const struct sockaddr unspecified = {.sa_family = AF_UNSPEC};
	int fd = to->family == 4 ? path->source_socket4 : path->source_socket6;
	struct sockaddr_storage name;
	socklen_t bytes = socket_address(to, SOURCE_PORT, &name);

	if (fd < 0) {
		return -EAFNOSUPPORT;
	}
	// Disconnect the socket first: otherwise it would keep the source address of the previous
	// lookup.
	(void)connect(fd, &unspecified, sizeof(unspecified));
	if (connect(fd, (struct sockaddr *)&name, bytes) < 0) {
		return -errno;
	}
	bytes = sizeof(name);
	if (getsockname(fd, (struct sockaddr *)&name, &bytes) < 0) {
		return -errno;
	}
	*ret = (struct weir_address){.family = to->family};
	if (to->family == 4) {
		memcpy(ret->bytes, &((struct sockaddr_in *)&name)->sin_addr, 4);
	} else {
		memcpy(ret->bytes, &((struct sockaddr_in6 *)&name)->sin6_addr, 16);
	}
	return 0;
}

// Returns whether backends can possibly reply to an address of this host. They cannot reply to
// loopback addresses (127.0.0.0/8, ::1) and IPv6 link-local addresses. Other addresses on the
// loopback interface are usable, because a router can have all its addresses there.
static bool is_usable(const struct sockaddr *name) {
	struct weir_address address = {.family = 6};

	if (name->sa_family == AF_INET) {
		return ntohl(((const struct sockaddr_in *)name)->sin_addr.s_addr) >> 24 !=
		       IN_LOOPBACKNET;
	}
	memcpy(address.bytes, &((const struct sockaddr_in6 *)name)->sin6_addr, 16);
	return !weir_address_is_link_local(&address) &&
	       !IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)name)->sin6_addr);
}

// Returns whether this host has an address of the family that backends can reply to.
static bool has_address(uint8_t family) {
	struct ifaddrs *list = NULL;
	bool found = false;

	if (getifaddrs(&list) < 0) {
		return true; // unknown
	}
	for (const struct ifaddrs *one = list; one != NULL && !found; one = one->ifa_next) {
		found = one->ifa_addr != NULL &&
			one->ifa_addr->sa_family == (family == 4 ? AF_INET : AF_INET6) &&
			is_usable(one->ifa_addr);
	}
	freeifaddrs(list);
	return found;
}

// Like has_address, but looks up the addresses at most once a second, because thousands of checks
// can begin within a second.
static bool has_address_now(struct weir_data_path *path, uint8_t family) {
	const uint64_t now_ms = uv_now(path->poll.loop);
	const int i = family == 6;

	if (path->own_address[i].until_ms <= now_ms) {
		path->own_address[i].until_ms = now_ms + ADDRESS_MS;
		path->own_address[i].found = has_address(family);
	}
	return path->own_address[i].found;
}

// Finds the source address of a connection (*ret_local) and of its outer header (*ret_outer).
// *ret_local: if the VIP and the backend have the same family, the source address that the kernel
// uses for the backend; otherwise the source address that the kernel uses for the VIP. If the
// kernel has no address for the VIP (many VIPs have an unreachable route), or only a link-local
// address, *ret_local is unspecified, and the kernel chooses the address later. Returns 0, or
// negative errno: -ENONET if this host has no address of the VIP's family.
static int find_addresses(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_address *ret_local, struct weir_address *ret_outer) {
	struct weir_address towards;
	int r = source_for(path, &target->backend, &towards);

	if (r < 0) {
		return r;
	}
	*ret_outer = target->hop.source.family != 0 ? target->hop.source : towards;
	*ret_local = towards;
	if (target->vip.family == target->backend.family) {
		return 0;
	}
	if (source_for(path, &target->vip, ret_local) < 0 ||
		weir_address_is_link_local(ret_local)) {
		*ret_local = (struct weir_address){.family = target->vip.family};
		r = has_address_now(path, target->vip.family) ? 0 : -ENONET;
	}
	return r;
}

// Open a socket and bind it to a free port of the block. Returns the socket, or negative errno.
static int open_socket(struct weir_data_path *path, const struct weir_address *local,
	uint8_t protocol, uint16_t *ret_port) {
	int family = local->family == 4 ? AF_INET : AF_INET6, r = -EADDRNOTAVAIL;
	int type = protocol == IPPROTO_UDP ? SOCK_DGRAM : SOCK_STREAM;
	int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_storage name;

	if (fd < 0) {
		return -errno;
	}
	for (int i = 0; i < BIND_TRIES; i++) {
		int port = weir_data_path_ports_take(&path->ports);
		socklen_t bytes;

		if (port < 0) {
			r = port;
			break;
		}
		bytes = socket_address(local, (uint16_t)port, &name);
		if (bind(fd, (struct sockaddr *)&name, bytes) == 0) {
			*ret_port = (uint16_t)port;
			return fd;
		}
		r = errno == EADDRINUSE ? -EADDRNOTAVAIL : -errno;
		weir_data_path_ports_give(&path->ports, (uint16_t)port);
		if (r != -EADDRNOTAVAIL) {
			break;
		}
	}
	close(fd);
	return r;
}

static bool has_ipv6(
	const struct weir_data_path *path, const struct weir_data_path_target *target) {
	return (target->vip.family == 4 || path->tunnel.ipv6_error == 0) &&
	       (target->backend.family == 4 || path->tunnel.ipv6 >= 0);
}

static void explain(const struct weir_data_path *path, int error, char *why, size_t why_bytes) {
	switch (error) {
	case -ENODEV:
		snprintf(why, why_bytes, "device %s was removed: restart weir-control",
			path->tunnel.name);
		break;
	case -EAFNOSUPPORT:
		snprintf(why, why_bytes, "IPv6 does not work on device %s", path->tunnel.name);
		break;
	case -ENONET:
		snprintf(why, why_bytes, "this host has no address of the VIP's family");
		break;
	default:
		snprintf(why, why_bytes, "%s", uv_strerror(error));
	}
}

// If the forwarding of the target is l2, checks that packets can be sent to the backend's MAC
// address. Returns 0, or negative errno with one line in why.
static int check_link(const struct weir_data_path *path, const struct weir_data_path_target *target,
	char *why, size_t why_bytes) {
	const struct weir_data_path_hop *hop = &target->hop;
	const char *text = "no ARP/ND reply from the backend";
	int r = -EHOSTUNREACH;

	if (weir_forwarding_headers[target->forwarding.mode]->outer) {
		return 0;
	}
	if (path->tunnel.link < 0) {
		text = "packet sockets are not allowed: add AF_PACKET to RestrictAddressFamilies";
		r = -EPROTONOSUPPORT;
	} else if (hop->has_mac) {
		return 0;
	} else if (hop->ifindex == 0) {
		text = "the link of the backend is not known yet";
		r = -ENOLINK;
	} else if (hop->through_gateway) {
		text = "packets to the backend go through a gateway";
		r = -ENETUNREACH;
	}
	snprintf(why, why_bytes, "%s", text);
	return r;
}

static void build_row(const struct weir_data_path_target *target, const struct weir_address *source,
	struct weir_backend_row *ret) {
	struct weir_backend_path path = {.family = target->backend.family,
		.source_bits = target->hop.source_bits,
		.forwarding = target->forwarding};

	memcpy(path.address, target->backend.bytes, sizeof(path.address));
	memcpy(path.source, source->bytes, sizeof(path.source));
	memcpy(path.next_hop_mac, target->hop.mac, sizeof(path.next_hop_mac));
	weir_backend_row_build(&path, ret);
}

int weir_data_path_open(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow, char *why, size_t why_bytes) {
	struct weir_address local, outer;
	uint16_t port = 0;
	struct flow *own;
	int r = path->lost ? -ENODEV : !has_ipv6(path, target) ? -EAFNOSUPPORT : 0;

	if (r == 0) {
		r = check_link(path, target, why, why_bytes);
		if (r < 0) {
			return r;
		}
	}
	if (r == 0) {
		r = find_addresses(path, target, &local, &outer);
	}
	if (r == 0) {
		r = open_socket(path, &local, target->protocol, &port);
	}
	if (r < 0) {
		explain(path, r, why, why_bytes);
		return r;
	}
	own = &path->flows[port - path->ports.first];
	*own = (struct flow){.backend = target->backend,
		.local = local,
		.vip = target->vip,
		.vip_port = target->port,
		.protocol = target->protocol,
		.ifindex = target->hop.ifindex,
		.open = true};
	build_row(target, &outer, &own->row);
	*flow = (struct weir_data_path_flow){.socket = r, .port = port};
	return 0;
}

bool weir_data_path_taken(struct weir_data_path *path, const struct weir_data_path_flow *flow,
	int *ret_error, char *why, size_t why_bytes) {
	const struct flow *own = &path->flows[flow->port - path->ports.first];
	struct weir_address towards = {.family = 0};
	char vip[INET6_ADDRSTRLEN];

	if (own->packets == 0) {
		take_packets(path); // there can be packets in the queue of the device
	}
	if (own->packets > 0) {
		*ret_error = own->error;
		return true;
	}
	weir_address_format(&own->vip, vip, sizeof(vip));
	if (path->lost) {
		explain(path, -ENODEV, why, why_bytes);
	} else if (source_for(path, &own->vip, &towards) == 0 &&
		   weir_address_equal(&towards, &own->vip)) {
		snprintf(why, why_bytes, "%s is an address of this host", vip);
	} else {
		snprintf(why, why_bytes,
			"no packet was sent through device %s: see \"ip rule\", table %u",
			path->tunnel.name, path->tunnel.table);
	}
	return false;
}

bool weir_data_path_local_fault(struct weir_data_path *path, const struct weir_data_path_flow *flow,
	uint32_t patience_ms, char *why, size_t why_bytes) {
	const struct flow *own = &path->flows[flow->port - path->ports.first];
	char device[IF_NAMESIZE], vip[INET6_ADDRSTRLEN];

	if (uv_now(path->poll.loop) - own->step_ms < patience_ms) {
		snprintf(why, why_bytes, "this host was too busy to send a packet in time");
		return true;
	}
	if (own->answered || !weir_data_path_return_refused(&path->kernel, &own->backend, &own->vip,
				     &own->local, device)) {
		return false;
	}
	snprintf(why, why_bytes, "this host drops replies from %s on %s: see rp_filter",
		weir_address_format(&own->vip, vip, sizeof(vip)), device);
	return true;
}

void weir_data_path_close(struct weir_data_path *path, struct weir_data_path_flow *flow) {
	if (flow->port == 0) {
		return;
	}
	if (flow->socket >= 0) {
		close(flow->socket);
	}
	path->flows[flow->port - path->ports.first].open = false;
	weir_data_path_ports_give(&path->ports, flow->port);
	*flow = (struct weir_data_path_flow){0};
}

// --- create and free ----------------------------------------------------------------------

static void close_socket(int fd) {
	if (fd >= 0) {
		close(fd);
	}
}

static void on_closed(uv_handle_t *handle) {
	struct weir_data_path *path = handle->data;

	if (--path->open_handles > 0) {
		return;
	}
	weir_data_path_tunnel_close(&path->tunnel);
	close_socket(path->source_socket4);
	close_socket(path->source_socket6);
	weir_data_path_netlink_close(&path->kernel);
	free(path);
}

int weir_data_path_create(uv_loop_t *loop, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost, void *context, struct weir_data_path **ret) {
	struct weir_data_path *path = calloc(1, sizeof(*path));
	int r;

	if (path == NULL) {
		return -ENOMEM;
	}
	r = weir_data_path_netlink_open(&path->kernel);
	if (r) {
		goto free_path;
	}
	r = uv_poll_init(loop, &path->poll, tunnel->device);
	if (r) {
		goto close_netlink;
	}
	uv_prepare_init(loop, &path->prepare);
	path->poll.data = path;
	path->prepare.data = path;
	path->open_handles = 2;
	path->on_lost = on_lost;
	path->context = context;
	path->tunnel = *tunnel;
	*tunnel = WEIR_DATA_PATH_TUNNEL_NONE;
	path->source_socket4 = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	path->source_socket6 = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	weir_data_path_ports_init(&path->ports, path->tunnel.port_first);
	uv_poll_start(&path->poll, UV_READABLE, on_packets);
	uv_prepare_start(&path->prepare, before_wait);
	*ret = path;
	return 0;
close_netlink:
	weir_data_path_netlink_close(&path->kernel);
free_path:
	free(path);
	return r;
}

void weir_data_path_free(struct weir_data_path *path) {
	if (path != NULL) {
		uv_close((uv_handle_t *)&path->poll, on_closed);
		uv_close((uv_handle_t *)&path->prepare, on_closed);
	}
}
