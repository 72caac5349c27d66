// SPDX-License-Identifier: BSD-3-Clause
//
// Documents: the response bodies of the HTTP server, created from replies of weir-control.
// Regardless of the number of clients, metrics.show is requested at most once a second, and a reply
// that took t ms is reused for at least 10 * t ms; an error is reused for at most 10 s. Until the
// next request, all clients get the same document: the last document of each kind is cached. A new
// status document needs three more requests. A client that is still receiving an older document
// holds a reference to it, so that the document is not freed.
//
// Threads: any. If a new document is needed, one thread requests the values from weir-control.
// Other threads wait until the requests for the document have ended; each request can take its
// timeout, and a request that fails before its timeout is repeated once.
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

// Call this function before other threads use the documents. Reads the history that a previous
// process saved in this directory, if the file exists; the history will be saved there as well. An
// invalid file is ignored and logged. directory: borrowed.
void weir_documents_keep(struct weir_documents *documents, const char *directory);
// Save the history in the directory that weir_documents_keep has set. Does nothing if
// weir_documents_keep was not called. Repeated failures are logged once. Call this function from
// one thread only.
void weir_documents_save(struct weir_documents *documents);

// Returns a reference to the current document of this kind in *ret; release it with
// weir_document_release. Returns 0 or -ENOMEM. If weir-control cannot be reached, the result is
// also 0: the status document then has the error, and the metrics have weir_control_up 0.
int weir_documents_get(
	struct weir_documents *documents, enum weir_document_kind kind, struct weir_document **ret);
void weir_document_release(struct weir_document *document);

// Take a sample for the plots of the page. Call this function every WEIR_HISTORY_MS.
void weir_documents_sample(struct weir_documents *documents);
