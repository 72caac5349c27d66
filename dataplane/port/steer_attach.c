// SPDX-License-Identifier: BSD-3-Clause
#include "steer_attach.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <xdp/libxdp.h>

#include "log.h"
#include "steer.h"

#define SOCKETS_BYTES 8192
#define MAPS_MAX 64

// --- messages -----------------------------------------------------------------------------

// The log for messages of libbpf and libxdp. It is global, because the libraries pass no context to
// their callbacks.
static const struct weir_log *messages;

__attribute__((format(printf, 1, 0))) static int write_message(const char *format, va_list args) {
	char text[512];

	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	weir_log_write(messages, WEIR_LOG_WARN, "%s", text);
	return 0;
}

__attribute__((format(printf, 2, 0))) static int print_libbpf(
	enum libbpf_print_level level, const char *format, va_list args) {
	return level == LIBBPF_WARN ? write_message(format, args) : 0;
}

__attribute__((format(printf, 2, 0))) static int print_libxdp(
	enum libxdp_print_level level, const char *format, va_list args) {
	return level == LIBXDP_WARN ? write_message(format, args) : 0;
}

void weir_steer_take_messages(const struct weir_log *log) {
	messages = log;
	libbpf_set_print(print_libbpf);
	libxdp_set_print(print_libxdp);
}

// --- claim --------------------------------------------------------------------------------

static socklen_t claim_address(uint32_t ifindex, struct sockaddr_un *ret) {
	int length;

	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	length = snprintf(
		ret->sun_path + 1, sizeof(ret->sun_path) - 1, "weir-dataplane/%u", ifindex);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

// Returns the process that listens on the address; 0 = unknown, for instance because other
// processes have filled the backlog.
static pid_t find_listener(const struct sockaddr_un *address, socklen_t bytes) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred listener = {0};
	socklen_t length = sizeof(listener);

	if (fd < 0) {
		return 0;
	}
	if (connect(fd, (const struct sockaddr *)address, bytes) == 0) {
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &length);
	}
	close(fd);
	return listener.pid;
}

// Checks whether a message of the kernel describes a socket with this name, of root or of this
// user.
static bool describes_claim(const struct nlmsghdr *message, const char *name, size_t bytes) {
	const struct rtattr *at = (const void *)((const char *)NLMSG_DATA(message) +
						 NLMSG_ALIGN(sizeof(struct unix_diag_msg)));
	int left = (int)NLMSG_PAYLOAD(message, sizeof(struct unix_diag_msg));
	bool named = false;
	uint32_t uid = 0;

	for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		if (at->rta_type == UNIX_DIAG_NAME) {
			named = RTA_PAYLOAD(at) == bytes && memcmp(RTA_DATA(at), name, bytes) == 0;
		} else if (at->rta_type == UNIX_DIAG_UID) {
			memcpy(&uid, RTA_DATA(at), sizeof(uid));
		}
	}
	return named && (uid == 0 || uid == geteuid());
}

// Reads the kernel's list of sockets. Returns 1 if a socket in it is the claim, 0 if none is, or
// negative errno.
static int read_sockets(int fd, const char *name, size_t bytes) {
	_Alignas(struct nlmsghdr) char data[SOCKETS_BYTES];
	bool found = false;

	for (;;) {
		ssize_t n = recv(fd, data, sizeof(data), 0);
		const struct nlmsghdr *at = (const void *)data;

		if (n <= 0) {
			return n < 0 ? -errno : -EIO;
		}
		for (; NLMSG_OK(at, n); at = NLMSG_NEXT(at, n)) {
			if (at->nlmsg_type == NLMSG_DONE) {
				return found;
			}
			if (at->nlmsg_type == NLMSG_ERROR) {
				return ((const struct nlmsgerr *)NLMSG_DATA(at))->error;
			}
			found |= describes_claim(at, name, bytes);
		}
	}
}

// Checks whether a socket of root or of this user has the address. Asks the kernel for the owner,
// because another user's socket need not accept a connection. Returns 1, 0 or negative errno.
static int is_claimed(const struct sockaddr_un *address, socklen_t bytes) {
	const struct {
		struct nlmsghdr header;
		struct unix_diag_req sockets;
	} request = {
		.header = {.nlmsg_len = sizeof(request),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		// Not the connections to a socket, which have its name, and root as their owner
		// until they are accepted.
		.sockets = {.sdiag_family = AF_UNIX,
			.udiag_states = 1u << TCP_LISTEN | 1u << TCP_CLOSE,
			.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID},
	};
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	int r;

	if (fd < 0) {
		return -errno;
	}
	r = send(fd, &request, sizeof(request), 0) < 0
		    ? -errno
		    : read_sockets(fd, address->sun_path,
			      bytes - offsetof(struct sockaddr_un, sun_path));
	close(fd);
	return r;
}

int weir_steer_claim(uint32_t ifindex, const char *interface, char *why, size_t why_bytes) {
	struct sockaddr_un address;
	socklen_t bytes = claim_address(ifindex, &address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0) {
		return -errno;
	}
	// The socket listens only for find_listener. Nothing accepts the connections.
	if (bind(fd, (struct sockaddr *)&address, bytes) == 0 && listen(fd, SOMAXCONN) == 0) {
		return fd;
	}
	r = -errno;
	if (r == -EADDRINUSE) {
		if (is_claimed(&address, bytes) == 0) {
			return fd; // the socket of another user is ignored
		}
		snprintf(why, why_bytes, "interface %s is used by weir-dataplane, pid %d",
			interface, (int)find_listener(&address, bytes));
		r = -EBUSY;
	} else {
		snprintf(why, why_bytes, "interface %s cannot be claimed: %s", interface,
			strerror(-r));
	}
	close(fd);
	return r;
}

// --- programs and their maps --------------------------------------------------------------

// Find the VIP map among the maps of a program. Returns a descriptor, -ENOENT, or another negative
// errno.
static int map_of(int program_fd) {
	struct bpf_prog_info program = {0};
	__u32 ids[MAPS_MAX] = {0};
	__u32 bytes = sizeof(program);

	program.nr_map_ids = MAPS_MAX;
	program.map_ids = (__u64)(uintptr_t)ids;
	if (bpf_obj_get_info_by_fd(program_fd, &program, &bytes) < 0) {
		return -errno;
	}
	for (__u32 i = 0; i < program.nr_map_ids && i < MAPS_MAX; i++) {
		struct bpf_map_info map = {0};
		int fd = bpf_map_get_fd_by_id(ids[i]);

		if (fd < 0) {
			continue;
		}
		bytes = sizeof(map);
		if (bpf_obj_get_info_by_fd(fd, &map, &bytes) == 0 &&
			strcmp(map.name, WEIR_STEER_VIPS_MAP) == 0 &&
			map.key_size == sizeof(struct weir_vip_key) &&
			map.value_size == sizeof(weir_vip_value)) {
			return fd;
		}
		close(fd);
	}
	return -ENOENT;
}

static int map_of_id(uint32_t id) {
	int program_fd = bpf_prog_get_fd_by_id(id);
	int r;

	if (program_fd < 0) {
		return -errno;
	}
	r = map_of(program_fd);
	close(program_fd);
	return r;
}

// Search for the VIP map in the programs that libxdp's dispatcher calls.
static int map_under_dispatcher(uint32_t ifindex) {
	struct xdp_multiprog *programs = xdp_multiprog__get_from_ifindex((int)ifindex);
	struct xdp_program *program = NULL;
	int r = -ENOENT;

	if (programs == NULL || libxdp_get_error(programs) != 0) {
		return -ENOENT;
	}
	while (r == -ENOENT && (program = xdp_multiprog__next_prog(program, programs)) != NULL) {
		r = map_of_id(xdp_program__id(program));
	}
	xdp_multiprog__close(programs);
	return r;
}

int weir_steer_map(uint32_t ifindex) {
	__u32 id = 0;
	int r = bpf_xdp_query_id((int)ifindex, 0, &id);

	if (r < 0) {
		return r;
	}
	if (id == 0) {
		return -ENOENT;
	}
	r = map_of_id(id);
	return r == -ENOENT ? map_under_dispatcher(ifindex) : r;
}

int weir_steer_clear(uint32_t ifindex, const char *interface, char *why, size_t why_bytes) {
	__u32 id = 0;
	int r = bpf_xdp_query_id((int)ifindex, 0, &id);
	int map;

	if (r < 0) {
		snprintf(why, why_bytes, "interface %s: cannot query its XDP program: %s",
			interface, strerror(-r));
		return r;
	}
	if (id == 0) {
		return 0;
	}
	map = map_of_id(id);
	if (map < 0) {
		snprintf(why, why_bytes,
			"interface %s has another XDP program (id %u; see \"bpftool prog show id "
			"%u\"); remove the program with \"ip link set dev %s xdp off\"",
			interface, id, id, interface);
		return -EBUSY;
	}
	close(map);
	r = bpf_xdp_detach((int)ifindex, 0, NULL);
	if (r < 0) {
		snprintf(why, why_bytes, "interface %s: cannot detach the stale XDP program: %s",
			interface, strerror(-r));
		return r;
	}
	return 1;
}
