/*
 * handle.h - handles and what they stand for. A handle is a kind and a number, so that it fits
 * into Fortran's integers, and one that is stale or made up is found out and named.
 *
 * Numbers below TWMPI_DYNAMIC are predefined. Looking one up takes no lock.
 */
#ifndef TOWLINE_PLUGINS_MPI_HANDLE_H
#define TOWLINE_PLUGINS_MPI_HANDLE_H

#include <stdbool.h>

#include "plugins/mpi/abi.h"

#define TWMPI_DYNAMIC 256u
#define TWMPI_PUBLIC  __attribute__((visibility("default")))

/* What stands behind a handle; NULL: it is of another kind, was freed, or never was. */
void *twmpi_object(enum twmpi_kind kind, uintptr_t handle);

/* Gives an object a handle; false: there is no memory, or there are as many as can be. */
bool twmpi_handle_new(enum twmpi_kind kind, void *object, uintptr_t *handle_out);

/* Gives an object the handle of a predefined constant; false: there is no memory. */
bool twmpi_handle_set(enum twmpi_kind kind, uintptr_t handle, void *object);

/* The handle means nothing any more; its number serves another object. */
void twmpi_handle_end(enum twmpi_kind kind, uintptr_t handle);

/* The object of the next handle of a kind, from number *at on; NULL: there is none. */
void *twmpi_handle_next(enum twmpi_kind kind, uint32_t *at);

#endif
