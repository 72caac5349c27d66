// SPDX-License-Identifier: BSD-3-Clause
#include "steer_attach.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <xdp/libxdp.h>

#include "log.h"
#include "steer.h"

#define CLAIM_PORT 6u // not assigned by IANA
#define MAPS_MAX 64

// --- messages -----------------------------------------------------------------------------

// The log for messages of libbpf and libxdp. The pointer is global, because the libraries pass no
// context to their callbacks.
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

int weir_steer_claim(uint32_t ifindex, const char *interface, char *why, size_t why_bytes) {
	const struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(CLAIM_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int index = (int)ifindex, yes = 1;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	// IP_FREEBIND: the interface may belong to a VRF without this address
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)) == 0 &&
		setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof(yes)) == 0 &&
		bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
		return fd;
	}
	r = -errno;
	if (r == -EADDRINUSE) {
		snprintf(why, why_bytes,
			"interface %s is used by another weir-dataplane: \"ss -lunp 'sport = %u'\" "
			"shows "
			"its pid",
			interface, CLAIM_PORT);
		r = -EBUSY;
	} else {
		snprintf(why, why_bytes,
			"interface %s cannot be claimed with UDP port %u of 127.0.0.1: %s%s",
			interface, CLAIM_PORT, strerror(-r),
			r == -EACCES ? "; CAP_NET_BIND_SERVICE is needed" : "");
	}
	if (fd >= 0) {
		close(fd);
	}
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
