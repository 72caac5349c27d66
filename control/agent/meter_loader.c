// SPDX-License-Identifier: BSD-3-Clause
#include "meter_loader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bpf_load.h"
#include "meter.h"
#include "meter.skel.h"

struct weir_meter_program {
	struct meter_bpf *skeleton;
};

static int set_params(struct meter_bpf *skeleton, const struct weir_meter_params *params) {
	int r = weir_bpf_set_sockets(params->ports, params->port_count,
		&skeleton->rodata->network_namespace, (uint64_t *)skeleton->rodata->ports);

	if (r) {
		return r;
	}
	return params->connections == 0
		       ? 0
		       : bpf_map__set_max_entries(
				 skeleton->maps.weir_meter_connections, params->connections);
}

// Count the connections that are already open: run the iterator program, which visits every socket
// and has no output. Returns 0 or negative errno.
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

int weir_meter_load(const struct weir_meter_params *params, struct weir_meter_program **ret,
	char *why, size_t why_bytes) {
	struct weir_meter_program *program = calloc(1, sizeof(*program));
	libbpf_print_fn_t before;
	char text[160];
	int r;

	if (program == NULL) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	before = weir_bpf_quiet();
	program->skeleton = meter_bpf__open();
	r = program->skeleton == NULL ? -errno : load(program->skeleton, params);
	libbpf_set_print(before);
	if (r) {
		snprintf(why, why_bytes, "%s%s",
			r == -EPERM || r == -EACCES ? "" : "cannot measure connections: ",
			weir_bpf_explain(r, text, sizeof(text)));
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
