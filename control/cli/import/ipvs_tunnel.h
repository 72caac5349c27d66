// SPDX-License-Identifier: BSD-3-Clause
//
// Options of ipvsadm for tunnels.
//
// Threads: any; no shared state.
#pragma once

#include "import.h"

struct weir_ipvs_tunnel { // NULL = the option is not in the line
	const char *type, *port; // values of --tun-type and --tun-port
	const char *checksum; // "nocsum", "csum" or "remcsum"
};

// Read the options of a server with -i. Returns false after an error: ipvsadm does not accept the
// options.
bool weir_ipvs_tunnel_read(struct weir_import *import, const struct weir_import_place *place,
	const struct weir_ipvs_tunnel *tunnel, struct weir_import_forwarding *ret);
