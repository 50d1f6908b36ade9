/*
 * handle.h - handles and their objects. A handle is a kind and a number, so that it fits into
 * Fortran's integers. A stale or invalid handle is detected, and the message names it.
 *
 * Numbers below TWMPI_DYNAMIC are predefined. A lookup takes no lock.
 */
#ifndef TOWLINE_PLUGINS_MPI_HANDLE_H
#define TOWLINE_PLUGINS_MPI_HANDLE_H

#include <stdbool.h>

#include "plugins/mpi/abi.h"

#define TWMPI_DYNAMIC 256u
#define TWMPI_PUBLIC  __attribute__((visibility("default")))

/*
 * Returns the object of a handle. NULL: the handle is of another kind, was freed, or never existed.
 */
void *twmpi_object(enum twmpi_kind kind, uintptr_t handle);

/* Gives an object a handle. False: there is no memory, or no number is left. */
bool twmpi_handle_new(enum twmpi_kind kind, void *object, uintptr_t *handle_out);

/* Gives an object the handle of a predefined constant. False: there is no memory. */
bool twmpi_handle_set(enum twmpi_kind kind, uintptr_t handle, void *object);

/* Ends a handle. Its number may be given to another object. */
void twmpi_handle_end(enum twmpi_kind kind, uintptr_t handle);

/* Returns the next object of a kind, from number *at on. NULL: there is none. */
void *twmpi_handle_next(enum twmpi_kind kind, uint32_t *at);

#endif
