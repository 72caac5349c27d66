// SPDX-License-Identifier: BSD-3-Clause
//
// What a configuration needs of this host: the interfaces that devices name, beside those that Weir
// makes, and the CPUs of workers.
//
// Threads: any.
#pragma once

#include <net/if.h>
#include <stdbool.h>

#include "config.h"

// The interface of weir-control for checks via the data path; weir-check1, ... of further
// processes.
#define WEIR_CHECK_DEVICE "weir-check"

// The interface that a device needs, lb0 of "net_af_xdp0,iface=lb0". Returns false, and ret is "",
// if it needs none: other drivers have none or make it.
bool weir_config_device_interface(const char *device, char ret[IF_NAMESIZE]);

// Whether Weir made an interface, by its name: that of checks, or a tap of DPDK with the name that
// DPDK or the documents give it.
bool weir_config_is_own_interface(const char *name);

// Add a copy of the warning. Returns 0 or -ENOMEM (left out).
int weir_config_add_warning(
	struct weir_config_errors *errors, const struct weir_config_error *warning);

// Add a warning for each port that needs an interface which does not exist in the network namespace
// of this process, with those that do. The file may be of another host. Returns 0 or -ENOMEM (some
// are left out).
int weir_config_warn_interfaces(
	const struct weir_config *config, struct weir_config_errors *errors);
// The same for the CPUs of workers that are not online.
int weir_config_warn_cpus(const struct weir_config *config, struct weir_config_errors *errors);
