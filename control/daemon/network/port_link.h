// SPDX-License-Identifier: BSD-3-Clause
//
// Port link: determines whether a port of the dataplane has a link. The state is read from the
// port's kernel interface, or from the port's device.
//
// Threads: only the event loop's thread. Makes a few system calls, which do not block.
#pragma once

#include "config.h"
#include "link_state.h"
#include "segment.h"

// Returns the state of the link of a port. port: an index below segment->ports. Returns UNKNOWN if
// the state cannot be read, or if the device of a port without its own kernel interface does not
// report the link.
enum weir_link_state weir_port_link(
	const struct weir_segment *segment, const struct weir_config *config, uint32_t port);

// Returns the state of the link of a port whose dataplane has exited. If the kernel interface of
// the port no longer exists, reads the interface that has the same name now, for example a tap
// interface that was created again. Returns UNKNOWN if the port has no kernel interface.
enum weir_link_state weir_port_link_without_dataplane(const struct weir_port_info *info);
