/*
 * place.h - names an address of code: module, offset in it, build-id, exported function.
 *
 * It serves readers of the documents only, never the data path. Everything is copied while the
 * loader's list of modules is locked, so a concurrent dlclose is harmless.
 *
 * dladdr would be shorter, but it takes another lock of the loader. A thread holds that lock while
 * it runs a library's constructors and destructors. A destructor that closes a runtime waits for
 * the stats thread, and the stats thread would wait for the lock.
 *
 * An address is resolved when a reader asks for it. It has no name if its module is no longer
 * loaded. If another module has been loaded there since, the name is wrong; nothing shows that.
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
	bool found;             /* false: no other member below is set */
	char module[256];       /* path of the file, "" when it has none */
	uint64_t module_offset; /* the address as the file numbers it (what addr2line takes) */
	char build_id[2 * 32 + 1];
	char symbol[192]; /* "" when the module exports no function there */
	uint64_t symbol_offset;
};

/* `address` is a return address: the instruction before it is looked up. */
void twi_place_find(const void *address, struct twi_place *out);

/* The best name that is known: "train_step+0x41 in trainer", "trainer+0x1241", "0x5581e0001241". */
void twi_place_text(const struct twi_place *place, char *out, size_t bytes);

/* Writes JSON members: address, module, module_offset, build_id, symbol, symbol_offset. */
void twi_place_emit(struct twi_emit *e, const struct twi_place *place);

/*
 * Writes the build-id in a module's notes as hex to `out` of `out_bytes`. False: there is no
 * build-id, or it is malformed. Reads no more than `bytes` of `notes`.
 */
bool twi_place_build_id(const void *notes, size_t bytes, size_t align, char *out, size_t out_bytes);

#endif
