// SPDX-License-Identifier: BSD-3-Clause
//
// Documents: the response bodies of the HTTP server, created from replies of weir-control.
// Regardless of the number of clients, weir-control is queried at most once a second, and queries
// take at most a tenth of the time. Between two queries, all clients get the same document: the
// last document of each kind is cached. A client that is still receiving an older document holds a
// reference to it, so that the document is not freed.
//
// Threads: any. If a new document is needed, one thread requests the values from weir-control.
// Other threads wait for the document, at most for the timeout of weir-control.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

enum weir_document_kind {
	WEIR_DOCUMENT_TEXT, // metrics in the Prometheus text format
	WEIR_DOCUMENT_OPENMETRICS,
	WEIR_DOCUMENT_STATUS, // JSON for the web page
	WEIR_DOCUMENT_KINDS,
};

struct weir_document {
	char *data;
	size_t bytes;
	unsigned int users; // number of references; atomic
};

struct weir_documents;

// Create the cache of documents. run_dir, log: borrowed. timeout_ms: maximum wait for a reply of
// weir-control. ipvs_names: add the families of node_exporter's IPVS collector. Returns 0 or
// -ENOMEM.
int weir_documents_create(const char *run_dir, unsigned int timeout_ms, bool ipvs_names,
	struct weir_log *log, struct weir_documents **ret);
void weir_documents_free(struct weir_documents *documents); // NULL is allowed

// Reads the history that a previous process saved in this directory, if the file exists; the
// history will be saved there as well. An invalid file is ignored and logged. directory: borrowed.
void weir_documents_keep(struct weir_documents *documents, const char *directory);
// Save the history in the directory that weir_documents_keep has set. Does nothing if
// weir_documents_keep was not called. Repeated failures are logged once.
void weir_documents_save(struct weir_documents *documents);

// Returns a reference to the current document of this kind in *ret; release it with
// weir_document_release. Returns 0 or -ENOMEM. If weir-control cannot be reached, the result is
// also 0, and the document contains the error.
int weir_documents_get(
	struct weir_documents *documents, enum weir_document_kind kind, struct weir_document **ret);
void weir_document_release(struct weir_document *document);

// Take a sample for the plots of the page. Call this function every WEIR_HISTORY_MS.
void weir_documents_sample(struct weir_documents *documents);
