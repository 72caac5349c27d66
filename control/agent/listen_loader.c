// SPDX-License-Identifier: BSD-3-Clause
#include "listen_loader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "bpf_load.h"
#include "listen.h"
#include "listen.skel.h"

static int set_params(struct listen_bpf *skeleton, const uint16_t *ports, uint32_t port_count) {
	long page = sysconf(_SC_PAGESIZE);
	int r = weir_bpf_set_sockets(ports, port_count, &skeleton->rodata->network_namespace,
		(uint64_t *)skeleton->rodata->ports);

	if (r) {
		return r;
	}
	return bpf_map__set_max_entries(skeleton->maps.weir_listen_events,
		page > WEIR_LISTEN_RING_BYTES ? (uint32_t)page : WEIR_LISTEN_RING_BYTES);
}

static int load(struct listen_bpf *skeleton, const uint16_t *ports, uint32_t port_count,
	struct weir_listen_program *ret) {
	struct weir_listen_program program;
	int r = set_params(skeleton, ports, port_count);

	if (r == 0) {
		r = listen_bpf__load(skeleton);
	}
	if (r == 0) {
		r = listen_bpf__attach(skeleton);
	}
	if (r) {
		return r;
	}
	program.ring = fcntl(bpf_map__fd(skeleton->maps.weir_listen_events), F_DUPFD_CLOEXEC, 0);
	program.attachment = fcntl(bpf_link__fd(skeleton->links.weir_listen), F_DUPFD_CLOEXEC, 0);
	if (program.ring < 0 || program.attachment < 0) {
		r = -errno;
		weir_listen_unload(&program);
		return r;
	}
	*ret = program;
	return 0;
}

int weir_listen_load(const uint16_t *ports, uint32_t port_count, struct weir_listen_program *ret,
	char *why, size_t why_bytes) {
	libbpf_print_fn_t before = weir_bpf_quiet();
	struct listen_bpf *skeleton = listen_bpf__open();
	int r = skeleton == NULL ? -errno : load(skeleton, ports, port_count, ret);

	listen_bpf__destroy(skeleton); // *ret keeps the program attached
	libbpf_set_print(before);
	if (r) {
		weir_bpf_explain(r, why, why_bytes);
	}
	return r;
}

void weir_listen_unload(struct weir_listen_program *program) {
	int *fds[] = {&program->attachment, &program->ring};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0) {
			close(*fds[i]);
			*fds[i] = -1;
		}
	}
}
