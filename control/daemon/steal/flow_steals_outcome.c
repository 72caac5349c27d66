// SPDX-License-Identifier: BSD-3-Clause
#include "flow_steals_outcome.h"

#include <stddef.h>

#include "mailboxes.h"

const char *weir_flow_steal_outcome_name(enum weir_flow_steal_outcome outcome) {
	static const char *const names[] = {
#define X(name, key, text) [WEIR_FLOW_STEAL_##name] = key,
		WEIR_FLOW_STEAL_OUTCOMES(X)
#undef X
	};

	return outcome < WEIR_FLOW_STEAL_OUTCOME_COUNT ? names[outcome] : "unknown";
}

const char *weir_flow_steal_reason_name(enum weir_flow_steal_reason reason) {
	static const char *const names[] = {
#define X(name, key, text) [WEIR_FLOW_STEAL_FOR_##name] = key,
		WEIR_FLOW_STEAL_REASONS(X)
#undef X
	};

	return reason < WEIR_FLOW_STEAL_REASON_COUNT ? names[reason] : "unknown";
}

const char *weir_flow_steal_hindrance(enum weir_flow_steal_outcome outcome) {
	switch (outcome) {
	case WEIR_FLOW_STEAL_OFF:
		return "its agent does not allow stealing: start weir-agent with --allow-steal "
		       "and the port of the service";
	case WEIR_FLOW_STEAL_COOKIES:
		return "the kernel of the backend sends SYN cookies, so it has no state of the "
		       "connection: raise the server's backlog, or set net.ipv4.tcp_syncookies=0";
	case WEIR_FLOW_STEAL_NO_LISTENER:
		return "its agent finds no listening socket: weir-agent must run in the network "
		       "namespace of the server";
	case WEIR_FLOW_STEAL_CANNOT_TELL:
		return "its agent cannot query the kernel: see the log of weir-agent on the "
		       "backend";
	default:
		return NULL;
	}
}

enum weir_flow_steal_outcome weir_flow_steal_of_move(uint8_t answer) {
	switch ((enum weir_move_answer)answer) {
	case WEIR_MOVE_MOVED:
		return WEIR_FLOW_STEAL_MOVED;
	case WEIR_MOVE_CHANGED:
		return WEIR_FLOW_STEAL_CHANGED;
	case WEIR_MOVE_GONE:
		return WEIR_FLOW_STEAL_GONE;
	case WEIR_MOVE_UNUSABLE:
		return WEIR_FLOW_STEAL_UNUSABLE;
	case WEIR_MOVE_LIMIT:
		return WEIR_FLOW_STEAL_LIMIT;
	case WEIR_MOVE_LATE:
		return WEIR_FLOW_STEAL_LATE;
	case WEIR_MOVE_NONE:
	case WEIR_MOVE_ANSWER_COUNT:
		break;
	}
	return WEIR_FLOW_STEAL_NO_WORKER;
}

enum weir_flow_steal_outcome weir_flow_steal_of_answer(enum weir_agent_steal_result result) {
	switch (result) {
	case WEIR_AGENT_STEAL_RUNNING:
		return WEIR_FLOW_STEAL_RUNNING;
	case WEIR_AGENT_STEAL_UNSETTLED:
		return WEIR_FLOW_STEAL_UNSETTLED;
	case WEIR_AGENT_STEAL_COOKIES:
		return WEIR_FLOW_STEAL_COOKIES;
	case WEIR_AGENT_STEAL_NO_LISTENER:
		return WEIR_FLOW_STEAL_NO_LISTENER;
	case WEIR_AGENT_STEAL_LATE:
		return WEIR_FLOW_STEAL_LATE;
	case WEIR_AGENT_STEAL_OFF:
		return WEIR_FLOW_STEAL_OFF;
	case WEIR_AGENT_STEAL_NO_RESULT:
		return WEIR_FLOW_STEAL_SILENT;
	default:
		return WEIR_FLOW_STEAL_CANNOT_TELL;
	}
}
