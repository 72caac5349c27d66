// SPDX-License-Identifier: BSD-3-Clause
//
// Names of policies in IPVS, HAProxy, nginx, Envoy and other load balancers.
//
// Threads: any.
#pragma once

// Find the policy of Weir that a word means: the policy most like that of another load balancer, or
// the policy with the most similar name. Ignores upper case and underscores. NULL: none.
const char *weir_cli_policy_meant(const char *word);
