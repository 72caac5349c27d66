// SPDX-License-Identifier: BSD-3-Clause
//
// What the options of several programs share: the run directory, where weir-dataplane's socket and
// weir-control's are, and the levels of the log.
#pragma once

#include <sys/un.h>

#include "log.h"
#include "option.h"

#define WEIR_RUN_DIR_DEFAULT "/run/weir"
#define WEIR_CONTROL_DIR "control" // in the run directory: weir-control's own
#define WEIR_CONTROL_SOCKET WEIR_CONTROL_DIR "/control.sock"
#define WEIR_USER_DEFAULT "weir" // of weir-control, if it exists
#define WEIR_GROUP_DEFAULT "weir" // may look, if it exists
#define WEIR_ADMIN_GROUP_DEFAULT "weir-admin" // may change, if it exists
// Bytes. The longest name in the run directory must still fit a socket address.
#define WEIR_RUN_DIR_MAX \
	(sizeof(((struct sockaddr_un *)NULL)->sun_path) - sizeof("/" WEIR_CONTROL_SOCKET))

extern const struct weir_option_word weir_log_level_words[]; // for an enum weir_log_level
extern const struct weir_option_word weir_log_format_words[]; // for an enum weir_log_format

// The option --log-level, but for its field.
#define WEIR_OPTION_LOG_LEVEL \
	.name = "log-level", .kind = WEIR_OPTION_WORD, .value = "LEVEL", \
	.help = "least severe messages to log", .fallback = "info", .words = weir_log_level_words

// The same of --log-format.
#define WEIR_OPTION_LOG_FORMAT \
	.name = "log-format", .kind = WEIR_OPTION_WORD, .value = "FORMAT", .help = "how to log", \
	.fallback = "auto", .words = weir_log_format_words
