// SPDX-License-Identifier: BSD-3-Clause
//
// Warnings about resources that a configuration needs, but that this host lacks: the CPUs of
// workers, the CA files of health checks, the programs of health checks and of `notify`, and the
// interfaces in the names of devices. Interfaces that Weir creates may be missing. Also warns about
// backends whose address is an address of this host.
//
// Threads: any.
#pragma once

#include <net/if.h>
#include <stdbool.h>

#include "config.h"

// The interface that weir-control creates for checks via the data path. Further weir-control
// processes in the same network namespace use weir-check1, weir-check2, ...
#define WEIR_CHECK_DEVICE "weir-check"

// Returns whether the driver of a device opens an existing network interface.
bool weir_config_device_opens_interface(const char *device);
// Gets the interface that a device needs, for example lb0 for "net_af_xdp0,iface=lb0". Returns
// false with ret "" if the driver opens no existing interface, or if the device has no valid
// iface=.
bool weir_config_device_interface(const char *device, char ret[IF_NAMESIZE]);

// Returns whether a name is probably the name of an interface that Weir creates. These names are
// WEIR_CHECK_DEVICE (for checks), "dtap" (DPDK's default name of a tap) and "weir" (name of a tap
// in the documentation). Each name may have a number at the end.
bool weir_config_is_own_interface(const char *name);

// Returns the number of receive queues of an interface, at most 1024; 0 if unknown. root: directory
// in which /sys is looked up; "" = this host.
uint32_t weir_config_count_queues(const char *root, const char *interface);
// Returns whether the port needs more receive queues than its interface has. queues: number of
// receive queues of the interface, 0 = unknown. Returns false if the device overrides the key
// "queues" with queue_count=.
bool weir_config_lacks_queues(const struct weir_config_port *port, uint32_t queues);

// Add a copy of the warning. Returns 0 or -ENOMEM (the warning is not added).
int weir_config_add_warning(
	struct weir_config_errors *errors, const struct weir_config_error *warning);

// Adds a warning for each port whose interface does not exist in the network namespace of this
// process, or has fewer receive queues than the port. A missing interface is not an error, because
// the file may be for another host. Returns 0 or -ENOMEM (some warnings are missing).
int weir_config_warn_interfaces(
	const struct weir_config *config, struct weir_config_errors *errors);
// Add a warning for each CPU of a worker that is not online. Return values as for
// weir_config_warn_interfaces.
int weir_config_warn_cpus(const struct weir_config *config, struct weir_config_errors *errors);

#define WEIR_CONFIG_CA_WHY_BYTES 320

// Checks that a CA file is a regular file with the first line of a PEM certificate in its first
// MiB. Does not decode the certificate. Returns 0, or a negative errno: -EBADMSG for a file without
// such a line, -EINVAL for a file that is not regular. why: the file and the error.
int weir_config_try_ca_file(const char *file, char why[WEIR_CONFIG_CA_WHY_BYTES]);

// Writes the reason of a warning about a CA file, or returns false if there is no fault.
typedef bool (*weir_config_ca_fault_fn)(const char *file, char *reason, size_t bytes);

// Adds a warning for each CA file with a fault, at the first health check that uses the file.
// Return values as for weir_config_warn_interfaces.
int weir_config_warn_ca_files(const struct weir_config *config, weir_config_ca_fault_fn fault,
	struct weir_config_errors *errors);

// Adds a warning for each program that cannot run: its file is missing, not regular or not
// executable, belongs to a user other than root, the user of this process and the default
// --script-user, or can be changed by users other than root and its owner. If this process has no
// permission to examine a file, no warning is added. Return values as for
// weir_config_warn_interfaces.
int weir_config_warn_programs(const struct weir_config *config, struct weir_config_errors *errors);

// Adds a warning for each backend whose address is an address of an interface in the network
// namespace of this process. Return values as for weir_config_warn_interfaces.
int weir_config_warn_local_backends(
	const struct weir_config *config, struct weir_config_errors *errors);
