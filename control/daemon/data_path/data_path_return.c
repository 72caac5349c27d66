// SPDX-License-Identifier: BSD-3-Clause
#include "data_path_return.h"

#include <errno.h>
#include <netinet/in.h>

static struct nlmsghdr *begin(
	struct weir_data_path_netlink *kernel, const struct weir_address *destination) {
	struct nlmsghdr *request = weir_data_path_netlink_begin(kernel, RTM_GETROUTE, 0);
	struct rtmsg *route = mnl_nlmsg_put_extra_header(request, sizeof(*route));
	uint16_t bytes = destination->family == 4 ? 4 : 16;

	route->rtm_family = destination->family == 4 ? AF_INET : AF_INET6;
	route->rtm_dst_len = (unsigned char)(bytes * 8);
	mnl_attr_put(request, RTA_DST, bytes, destination->bytes);
	return request;
}

static int take_device(const struct nlmsghdr *message, void *context) {
	const struct nlattr *attribute;
	uint32_t *ret = context;

	mnl_attr_for_each(attribute, message, sizeof(struct rtmsg)) {
		if (mnl_attr_get_type(attribute) == RTA_OIF &&
			mnl_attr_validate(attribute, MNL_TYPE_U32) == 0) {
			*ret = mnl_attr_get_u32(attribute);
		}
	}
	return MNL_CB_OK;
}

bool weir_data_path_return_refused(struct weir_data_path_netlink *kernel,
	const struct weir_address *backend, const struct weir_address *vip,
	const struct weir_address *local, char device[IF_NAMESIZE]) {
	struct nlmsghdr *request;
	uint32_t ifindex = 0;
	struct rtmsg *route;
	int r;

	if (vip->family != 4 || kernel->socket == NULL ||
		weir_data_path_netlink_request(
			kernel, begin(kernel, backend), take_device, &ifindex) < 0 ||
		if_indextoname(ifindex, device) == NULL) {
		return false;
	}
	request = begin(kernel, local);
	route = mnl_nlmsg_get_payload(request);
	route->rtm_src_len = 32;
	mnl_attr_put(request, RTA_SRC, 4, vip->bytes);
	mnl_attr_put_u32(request, RTA_IIF, ifindex);
	mnl_attr_put_u8(request, RTA_IP_PROTO, IPPROTO_TCP);
	r = weir_data_path_netlink_request(kernel, request, NULL, NULL);
	return r == -EINVAL || r == -EXDEV;
}
