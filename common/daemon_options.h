// SPDX-License-Identifier: BSD-3-Clause
//
// What the options of several programs share: the run directory, where weir-dataplane's socket and
// weir-control's are, and the levels of the log.
#pragma once

#include <sys/un.h>

#include "log.h"
#include "option.h"

#define WEIR_RUN_DIR_DEFAULT "/run/weir"
#define WEIR_CONTROL_SOCKET "control.sock" // in the run directory
// Bytes. The longest name in the run directory must still fit a socket address.
#define WEIR_RUN_DIR_MAX \
	(sizeof(((struct sockaddr_un *)NULL)->sun_path) - sizeof("/dataplane.sock"))

extern const struct weir_option_word weir_log_level_words[]; // for an enum weir_log_level
