/*
 * document_trace.h - what is in a document, for those of this room who make other things of it.
 */
#ifndef TWI_DOCUMENT_TRACE_H
#define TWI_DOCUMENT_TRACE_H

struct trace_document;
struct twi_trace;

/* The document's; it lives as long. */
const struct twi_trace *trace_document_trace(const struct trace_document *document);

#endif
