// SPDX-License-Identifier: BSD-3-Clause
#include "meter_loader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meter.h"
#include "meter.skel.h"

struct weir_meter_program {
	struct meter_bpf *skeleton;
};

static int quiet(enum libbpf_print_level level, const char *format, va_list arguments) {
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

static int set_params(struct meter_bpf *skeleton, const struct weir_meter_params *params) {
	struct stat namespace;

	if (stat("/proc/self/ns/net", &namespace)) {
		return -errno;
	}
	skeleton->rodata->network_namespace = (uint32_t)namespace.st_ino;
	for (uint32_t i = 0; i < params->port_count; i++) {
		uint16_t port = params->ports[i];

		skeleton->rodata->ports[port / 64] |= UINT64_C(1) << port % 64;
	}
	return params->connections == 0
		       ? 0
		       : bpf_map__set_max_entries(
				 skeleton->maps.weir_meter_connections, params->connections);
}

// Run the iterator to its end: it produces no output and visits every socket.
static int count_existing(struct meter_bpf *skeleton) {
	char unused[64];
	ssize_t n;
	int fd;

	skeleton->links.weir_meter_existing =
		bpf_program__attach_iter(skeleton->progs.weir_meter_existing, NULL);
	if (skeleton->links.weir_meter_existing == NULL) {
		return -errno;
	}
	fd = bpf_iter_create(bpf_link__fd(skeleton->links.weir_meter_existing));
	if (fd < 0) {
		return fd;
	}
	do {
		n = read(fd, unused, sizeof(unused));
	} while (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

static int load(struct meter_bpf *skeleton, const struct weir_meter_params *params) {
	int r = set_params(skeleton, params);

	if (r == 0) {
		r = meter_bpf__load(skeleton);
	}
	if (r == 0) {
		skeleton->links.weir_meter = bpf_program__attach(skeleton->progs.weir_meter);
		r = skeleton->links.weir_meter == NULL ? -errno : 0;
	}
	return r == 0 ? count_existing(skeleton) : r;
}

static void explain(int error, char *why, size_t why_bytes) {
	if (error == -EPERM || error == -EACCES) {
		snprintf(why, why_bytes,
			"no permission to load BPF programs: run as root, or with CAP_BPF and "
			"CAP_PERFMON");
	} else if (access("/sys/kernel/btf/vmlinux", R_OK)) {
		snprintf(why, why_bytes,
			"cannot measure connections: this kernel has no /sys/kernel/btf/vmlinux "
			"(CONFIG_DEBUG_INFO_BTF)");
	} else {
		snprintf(why, why_bytes,
			"cannot measure connections: loading the BPF program failed: %s",
			strerror(-error));
	}
}

int weir_meter_load(const struct weir_meter_params *params, struct weir_meter_program **ret,
	char *why, size_t why_bytes) {
	struct weir_meter_program *program = calloc(1, sizeof(*program));
	libbpf_print_fn_t before;
	int r;

	if (program == NULL) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	before = libbpf_set_print(quiet);
	program->skeleton = meter_bpf__open();
	r = program->skeleton == NULL ? -errno : load(program->skeleton, params);
	libbpf_set_print(before);
	if (r) {
		explain(r, why, why_bytes);
		weir_meter_unload(program);
		return r;
	}
	*ret = program;
	return 0;
}

void weir_meter_unload(struct weir_meter_program *program) {
	if (program != NULL) {
		meter_bpf__destroy(program->skeleton);
		free(program);
	}
}

int weir_meter_fd(const struct weir_meter_program *program) {
	return bpf_map__fd(program->skeleton->maps.bss);
}
