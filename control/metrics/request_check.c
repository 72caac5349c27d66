// SPDX-License-Identifier: BSD-3-Clause
#include "request_check.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define HOST_BYTES 256
#define OPENMETRICS "application/openmetrics-text"

// Returns whether the text that follows a host name is a port (a colon with digits) or empty.
static bool is_port(const char *text) {
	return text[0] == '\0' || (text[0] == ':' && text[1] != '\0' &&
					  strspn(text + 1, "0123456789") == strlen(text + 1));
}

static bool is_ipv6(const char *host) {
	const char *end = strchr(host, ']');
	unsigned char address[16];
	char text[INET6_ADDRSTRLEN];
	size_t bytes = end != NULL ? (size_t)(end - host - 1) : sizeof(text);

	if (bytes >= sizeof(text) || !is_port(end + 1)) {
		return false;
	}
	memcpy(text, host + 1, bytes);
	text[bytes] = '\0';
	return inet_pton(AF_INET6, text, address) == 1;
}

bool weir_request_host_allowed(const char *host, const char *const *names, unsigned int count) {
	size_t bytes = strcspn(host, ":");
	unsigned char address[4];
	char name[HOST_BYTES];

	if (host[0] == '[') {
		return is_ipv6(host);
	}
	if (bytes == 0 || bytes >= sizeof(name) || !is_port(host + bytes)) {
		return false;
	}
	memcpy(name, host, bytes);
	name[bytes] = '\0';
	if (inet_pton(AF_INET, name, address) == 1 || strcasecmp(name, "localhost") == 0) {
		return true;
	}
	for (unsigned int i = 0; i < count; i++) {
		if (strcasecmp(name, names[i]) == 0) {
			return true;
		}
	}
	return false;
}

bool weir_request_wants_openmetrics(const char *accept) {
	const char *wanted = accept != NULL ? strcasestr(accept, OPENMETRICS) : NULL;
	const char *text = accept != NULL ? strcasestr(accept, "text/plain") : NULL;

	// If both formats are listed, the first is preferred.
	return wanted != NULL && (text == NULL || wanted < text);
}
