// SPDX-License-Identifier: BSD-3-Clause
//
// Names of policies as administrators know them from IPVS, HAProxy, nginx, Envoy and others.
//
// Threads: any.
#pragma once

// The policy of Weir that a word means: the nearest by what it does, or by its letters. Upper case
// and underscores do not matter. NULL: none.
const char *weir_cli_policy_meant(const char *word);
