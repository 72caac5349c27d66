// SPDX-License-Identifier: BSD-3-Clause
//
// Names of policies in IPVS, HAProxy, nginx, Envoy and other load balancers.
//
// Threads: any.
#pragma once

// Find the policy of Weir for a name that a user typed: the equivalent of a policy of another load
// balancer, or else the policy with the most similar name. Ignores case, and treats underscores as
// hyphens. Returns NULL if there is none.
const char *weir_cli_policy_meant(const char *word);
