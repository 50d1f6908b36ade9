/*
 * place.h - what an address of code is called: module, offset in it, build-id, exported function.
 *
 * For readers of the documents only, never on the data path. All is copied out while the loader's
 * list of modules is locked, so a dlclose beside it is harmless. dladdr would be shorter, but it
 * takes the loader's other lock, which a thread holds while it runs a library's constructors and
 * destructors: one of those that closes a runtime would wait for the stats thread, and that for it.
 *
 * An address is resolved when it is asked about. One whose module is no longer loaded has no name;
 * one where another module has been loaded since would get a wrong one, which cannot be told apart.
 */
#ifndef TWI_PLACE_H
#define TWI_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_PLACE_TEXT_BYTES 512

struct twi_emit;

struct twi_place {
	const void *address;
	bool found;             /* of the rest nothing is set without it */
	char module[256];       /* path of the file, "" when it has none */
	uint64_t module_offset; /* the address as the file numbers it (what addr2line takes) */
	char build_id[2 * 32 + 1];
	char symbol[192]; /* "" when the module exports no function there */
	uint64_t symbol_offset;
};

/* `address` is one that a call returns to: the instruction before it is what is looked up. */
void twi_place_find(const void *address, struct twi_place *out);

/* The best that is known: "train_step+0x41 in trainer", "trainer+0x1241", "0x5581e0001241". */
void twi_place_text(const struct twi_place *place, char *out, size_t bytes);

/* As members of a JSON object: address, module, module_offset, build_id, symbol, symbol_offset. */
void twi_place_emit(struct twi_emit *e, const struct twi_place *place);

/*
 * The build-id in a module's notes, as hex, into `out` of `out_bytes`; false when there is none, or
 * none that is well formed. Reads `notes` up to `bytes` alone.
 */
bool twi_place_build_id(const void *notes, size_t bytes, size_t align, char *out, size_t out_bytes);

#endif
