// SPDX-License-Identifier: BSD-3-Clause
#include "health_tcp.h"

#include <stdlib.h>

int weir_health_tcp_start(
	uv_loop_t *loop, const struct weir_probe_params *params, struct weir_health_stream **ret) {
	static const struct weir_health_stream_type type = {.take = NULL};
	struct weir_health_stream *stream = calloc(1, sizeof(*stream));
	int r = -ENOMEM;

	if (stream != NULL) {
		r = weir_health_stream_start(stream, loop, &type, params);
	}
	if (r == 0) {
		*ret = stream;
	}
	return r;
}
