// SPDX-License-Identifier: BSD-3-Clause
//
// Options that several programs share: default values of the run directory, users and groups, and
// the rows of --log-level and --log-format.
#pragma once

#include <sys/un.h>

#include "log.h"
#include "option.h"

#define WEIR_RUN_DIR_DEFAULT "/run/weir"
#define WEIR_AGENT_RUN_DIR_DEFAULT "/run/weir-agent"
#define WEIR_CONTROL_DIR "control" // directory in the run directory, owned by weir-control's user
#define WEIR_CONTROL_SOCKET WEIR_CONTROL_DIR "/control.sock"
#define WEIR_USER_DEFAULT "weir" // weir-control runs as this user, if the user exists
#define WEIR_GROUP_DEFAULT "weir" // members have read access with weirctl, if the group exists
// Members of this group, if it exists, may also change settings with weirctl.
#define WEIR_ADMIN_GROUP_DEFAULT "weir-admin"
// Maximum length of the run directory's path, in bytes: the path of a socket in this directory must
// fit into a socket address.
#define WEIR_RUN_DIR_MAX \
	(sizeof(((struct sockaddr_un *)NULL)->sun_path) - sizeof("/" WEIR_CONTROL_SOCKET))

extern const struct weir_option_word weir_log_level_words[]; // number: enum weir_log_level
extern const struct weir_option_word weir_log_format_words[]; // number: enum weir_log_format

// Table row of --log-level. Each program adds the field that stores the value.
#define WEIR_OPTION_LOG_LEVEL \
	.name = "log-level", .kind = WEIR_OPTION_WORD, .value = "LEVEL", \
	.help = "minimum severity of messages to log", .fallback = "info", \
	.words = weir_log_level_words

// Table row of --log-format. Each program adds the field that stores the value.
#define WEIR_OPTION_LOG_FORMAT \
	.name = "log-format", .kind = WEIR_OPTION_WORD, .value = "FORMAT", .help = "log format", \
	.fallback = "auto", .words = weir_log_format_words
