// SPDX-License-Identifier: BSD-3-Clause
#include "bpf_load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int print_nothing(enum libbpf_print_level level, const char *format, va_list arguments) {
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

libbpf_print_fn_t weir_bpf_quiet(void) {
	return libbpf_set_print(print_nothing);
}

int weir_bpf_set_sockets(
	const uint16_t *ports, uint32_t port_count, uint32_t *ret_namespace, uint64_t *ret_words) {
	struct stat namespace;

	if (stat("/proc/self/ns/net", &namespace)) {
		return -errno;
	}
	*ret_namespace = (uint32_t)namespace.st_ino;
	for (uint32_t i = 0; i < port_count; i++) {
		ret_words[ports[i] / 64] |= UINT64_C(1) << ports[i] % 64;
	}
	return 0;
}

const char *weir_bpf_explain(int error, char *why, size_t why_bytes) {
	if (error == -EPERM || error == -EACCES) {
		snprintf(why, why_bytes,
			"no permission to load BPF programs: run as root, or with CAP_BPF and "
			"CAP_PERFMON");
	} else if (access("/sys/kernel/btf/vmlinux", R_OK)) {
		snprintf(why, why_bytes,
			"/sys/kernel/btf/vmlinux is missing: use a kernel with "
			"CONFIG_DEBUG_INFO_BTF");
	} else {
		snprintf(why, why_bytes, "loading the BPF program failed: %s", strerror(-error));
	}
	return why;
}
