// SPDX-License-Identifier: BSD-3-Clause
#include "link_state.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum weir_link_state weir_link_state_read(uint32_t ifindex) {
	struct ifreq request = {.ifr_ifindex = (int)ifindex};
	enum weir_link_state state = WEIR_LINK_UNKNOWN;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		return state;
	}
	if (ioctl(fd, SIOCGIFNAME, &request) < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0) {
		state = errno == ENODEV ? WEIR_LINK_GONE : WEIR_LINK_UNKNOWN;
	} else if ((request.ifr_flags & IFF_UP) == 0) {
		state = WEIR_LINK_DISABLED;
	} else {
		state = (request.ifr_flags & IFF_RUNNING) != 0 ? WEIR_LINK_UP
							       : WEIR_LINK_NO_CARRIER;
	}
	close(fd);
	return state;
}

const char *weir_link_state_name(enum weir_link_state state) {
	static const char *const names[] = {
#define X(name, key) [WEIR_LINK_##name] = key,
		WEIR_LINK_STATES(X)
#undef X
	};

	return names[state];
}
