// SPDX-License-Identifier: BSD-3-Clause
#include "kernel.h"

#include <errno.h>
#include <ifaddrs.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES 8192

static int bytes_of(const struct weir_address *address) {
	return address->family == 4 ? 4 : 16;
}

static int family_of(const struct weir_address *address) {
	return address->family == 4 ? AF_INET : AF_INET6;
}

// Send a netlink request and pass the reply to a callback. Returns 0 or negative errno.
static int query(struct nlmsghdr *request, mnl_cb_t callback, void *context) {
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	char buffer[BUFFER_BYTES];
	ssize_t got;
	int r = 0;

	if (socket == NULL) {
		return -errno;
	}
	request->nlmsg_flags = NLM_F_REQUEST;
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
		mnl_socket_sendto(socket, request, request->nlmsg_len) < 0) {
		r = -errno;
	} else {
		got = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
		if (got < 0 || mnl_cb_run(buffer, (size_t)got, 0, 0, callback, context) < 0) {
			r = -errno;
		}
	}
	mnl_socket_close(socket);
	return r;
}

static struct weir_address read_address(uint8_t family, const struct nlattr *attribute) {
	return weir_address_of(
		family == AF_INET ? 4 : 6, mnl_attr_get_payload((struct nlattr *)attribute));
}

// Reads RTA_VIA: a gateway of the other address family.
static struct weir_address read_via(const struct nlattr *attribute) {
	const struct rtvia *via = mnl_attr_get_payload(attribute);

	return weir_address_of(via->rtvia_family == AF_INET ? 4 : 6, via->rtvia_addr);
}

static void read_metrics(const struct nlattr *attribute, struct weir_kernel_route *route) {
	const struct nlattr *metric;

	mnl_attr_for_each_nested(metric, attribute) {
		if (mnl_attr_get_type(metric) == RTAX_MTU) {
			route->mtu = mnl_attr_get_u32(metric);
		} else if (mnl_attr_get_type(metric) == RTAX_ADVMSS) {
			route->advmss = mnl_attr_get_u32(metric);
		}
	}
}

static int take_route(const struct nlmsghdr *message, void *context) {
	const struct rtmsg *header = mnl_nlmsg_get_payload(message);
	struct weir_kernel_route *route = context;
	const struct nlattr *attribute;

	if (message->nlmsg_type != RTM_NEWROUTE) {
		return MNL_CB_OK;
	}
	route->type = header->rtm_type;
	mnl_attr_for_each(attribute, message, sizeof(*header)) {
		switch (mnl_attr_get_type(attribute)) {
		case RTA_OIF:
			route->index = mnl_attr_get_u32(attribute);
			if (if_indextoname(route->index, route->interface) == NULL) {
				route->interface[0] = '\0';
			}
			break;
		case RTA_GATEWAY:
			route->next_hop = read_address(header->rtm_family, attribute);
			break;
		case RTA_VIA:
			route->next_hop = read_via(attribute);
			break;
		case RTA_PREFSRC:
			route->source = read_address(header->rtm_family, attribute);
			break;
		case RTA_METRICS:
			read_metrics(attribute, route);
			break;
		}
	}
	return MNL_CB_OK;
}

int weir_kernel_route(const struct weir_address *destination, struct weir_kernel_route *ret) {
	struct weir_kernel_route route = {.next_hop = *destination};
	char buffer[256] = {0};
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct rtmsg *header;
	int r;

	request->nlmsg_type = RTM_GETROUTE;
	header = mnl_nlmsg_put_extra_header(request, sizeof(*header));
	header->rtm_family = (unsigned char)family_of(destination);
	header->rtm_dst_len = (unsigned char)(8 * bytes_of(destination));
	mnl_attr_put(request, RTA_DST, (size_t)bytes_of(destination), destination->bytes);
	r = query(request, take_route, &route);
	if (r == 0) {
		*ret = route;
	}
	return r;
}

struct neighbour {
	int state;
	uint8_t mac[6];
};

static int take_neighbour(const struct nlmsghdr *message, void *context) {
	const struct ndmsg *header = mnl_nlmsg_get_payload(message);
	struct neighbour *neighbour = context;
	const struct nlattr *attribute;

	if (message->nlmsg_type != RTM_NEWNEIGH) {
		return MNL_CB_OK;
	}
	neighbour->state = header->ndm_state;
	mnl_attr_for_each(attribute, message, sizeof(*header)) {
		if (mnl_attr_get_type(attribute) == NDA_LLADDR &&
			mnl_attr_get_payload_len(attribute) == sizeof(neighbour->mac)) {
			memcpy(neighbour->mac, mnl_attr_get_payload(attribute),
				sizeof(neighbour->mac));
		}
	}
	return MNL_CB_OK;
}

int weir_kernel_neighbour(const struct weir_address *address, unsigned int index, uint8_t mac[6]) {
	char buffer[256] = {0};
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct ndmsg *header;
	struct neighbour neighbour = {.state = -ENOENT};
	int r;

	request->nlmsg_type = RTM_GETNEIGH;
	header = mnl_nlmsg_put_extra_header(request, sizeof(*header));
	header->ndm_family = (unsigned char)family_of(address);
	header->ndm_ifindex = (int)index;
	mnl_attr_put(request, NDA_DST, (size_t)bytes_of(address), address->bytes);
	r = query(request, take_neighbour, &neighbour);
	if (mac != NULL) {
		memcpy(mac, neighbour.mac, sizeof(neighbour.mac));
	}
	return r < 0 ? r : neighbour.state;
}

// --- interfaces ---------------------------------------------------------------------------

int weir_kernel_address(const char *interface, int family, struct weir_address *ret) {
	const int wanted = family == 4 ? AF_INET : AF_INET6;
	struct ifaddrs *list;
	int r = -EADDRNOTAVAIL;

	if (getifaddrs(&list) < 0) {
		return -errno;
	}
	for (const struct ifaddrs *at = list; at != NULL && r < 0; at = at->ifa_next) {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;

		if (at->ifa_addr == NULL || at->ifa_addr->sa_family != wanted ||
			strcmp(at->ifa_name, interface) != 0) {
			continue;
		}
		if (family == 4) {
			memcpy(&in, at->ifa_addr, sizeof(in));
			*ret = weir_address_of(4, (const uint8_t *)&in.sin_addr);
			r = 0;
			continue;
		}
		memcpy(&in6, at->ifa_addr, sizeof(in6));
		if (!IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr)) {
			*ret = weir_address_of(6, (const uint8_t *)&in6.sin6_addr);
			r = 0;
		}
	}
	freeifaddrs(list);
	return r;
}

bool weir_kernel_has_address(const struct weir_address *address) {
	struct ifaddrs *list;
	bool found = false;

	if (getifaddrs(&list) < 0) {
		return true;
	}
	for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
		const struct sockaddr *any = at->ifa_addr;
		const void *bytes;

		if (any != NULL && any->sa_family == family_of(address)) {
			bytes = any->sa_family == AF_INET
					? (const void *)&((const struct sockaddr_in *)any)->sin_addr
					: &((const struct sockaddr_in6 *)any)->sin6_addr;
			found |= memcmp(bytes, address->bytes, (size_t)bytes_of(address)) == 0;
		}
	}
	freeifaddrs(list);
	return found;
}

static int query_device(const char *interface, unsigned long request, struct ifreq *ifr) {
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0) {
		return -errno;
	}
	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", interface);
	r = ioctl(fd, request, ifr) < 0 ? -errno : 0;
	close(fd);
	return r;
}

static int query_ethtool(const char *interface, void *data) {
	struct ifreq ifr = {.ifr_data = data};

	return query_device(interface, SIOCETHTOOL, &ifr);
}

int weir_kernel_flag(const char *interface, uint32_t flag) {
	struct ethtool_value flags = {.cmd = ETHTOOL_GFLAGS};
	int r = query_ethtool(interface, &flags);

	return r < 0 ? r : (flags.data & flag) != 0;
}

// Returns the index of the ethtool feature with this name, or negative errno. *ret_count: number of
// features of the interface.
static int find_feature(const char *interface, const char *name, uint32_t *ret_count) {
	// The struct ends with a flexible array; in this request the array has one element.
	uint64_t room[(sizeof(struct ethtool_sset_info) + sizeof(uint32_t) + 7) / 8] = {0};
	struct ethtool_sset_info *info = (struct ethtool_sset_info *)room;
	struct ethtool_gstrings *strings;
	uint32_t length = 0;
	int r;

	info->cmd = ETHTOOL_GSSET_INFO;
	info->sset_mask = 1ull << ETH_SS_FEATURES;
	r = query_ethtool(interface, info);
	memcpy(&length, (const uint8_t *)room + sizeof(*info), sizeof(length));
	if (r < 0 || length == 0 || length > 1024) {
		return r < 0 ? r : -ENOENT;
	}
	strings = calloc(1, sizeof(*strings) + (size_t)length * ETH_GSTRING_LEN);
	if (strings == NULL) {
		return -ENOMEM;
	}
	strings->cmd = ETHTOOL_GSTRINGS;
	strings->string_set = ETH_SS_FEATURES;
	strings->len = length;
	r = query_ethtool(interface, strings);
	for (uint32_t i = 0; r == 0 && i < length; i++) {
		if (strncmp((char *)strings->data + (size_t)i * ETH_GSTRING_LEN, name,
			    ETH_GSTRING_LEN) == 0) {
			free(strings);
			*ret_count = length;
			return (int)i;
		}
	}
	free(strings);
	return r < 0 ? r : -ENOENT;
}

int weir_kernel_feature(const char *interface, const char *name) {
	struct ethtool_gfeatures *features;
	uint32_t count = 0, blocks;
	int bit = find_feature(interface, name, &count), r;

	if (bit < 0) {
		return bit;
	}
	blocks = (count + 31) / 32;
	features = calloc(1, sizeof(*features) + blocks * sizeof(features->features[0]));
	if (features == NULL) {
		return -ENOMEM;
	}
	features->cmd = ETHTOOL_GFEATURES;
	features->size = blocks;
	r = query_ethtool(interface, features);
	if (r == 0) {
		const struct ethtool_get_features_block *block = &features->features[bit / 32];

		r = (int)(block->active >> bit % 32 & 1);
		r = r > 0 && (block->available >> bit % 32 & 1) == 0 ? WEIR_KERNEL_FIXED : r;
	}
	free(features);
	return r;
}

int weir_kernel_driver(const char *interface, char *ret, size_t bytes) {
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	int r = query_ethtool(interface, &info);

	if (r == 0) {
		snprintf(ret, bytes, "%.*s", (int)sizeof(info.driver), info.driver);
	}
	return r;
}

int weir_kernel_mtu(const char *interface) {
	struct ifreq ifr = {0};
	int r = query_device(interface, SIOCGIFMTU, &ifr);

	return r < 0 ? r : ifr.ifr_mtu;
}

int weir_kernel_queues_most(const char *interface) {
	struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
	int r = query_ethtool(interface, &channels);

	return r < 0 ? r : channels.max_combined > 0 ? (int)channels.max_combined : -ENOENT;
}
