//===- FindObject.cpp - Unwinding without a new glibc ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GCC's static unwinder calls a function of the C library to find the object
// file of an address. Only glibc 2.35 and later have this function. This file
// defines it in the binary, so that the binary also starts on glibc 2.34.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <dlfcn.h>
#include <link.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE

namespace {
struct Search {
  uintptr_t address;
  dl_find_object *result;
  bool found = false;
};
} // namespace

static int visitObject(dl_phdr_info *info, size_t, void *context) {
  Search &search = *static_cast<Search *>(context);
  const ElfW(Phdr) *frame = nullptr;
  uintptr_t begin = 0, end = 0;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info->dlpi_phdr[i];
    uintptr_t low = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME)
      frame = &header;
    if (header.p_type != PT_LOAD)
      continue;
    if (end == 0)
      begin = low;
    end = low + header.p_memsz;
    inside |= search.address >= low && search.address < end;
  }
  if (!inside)
    return 0;
  if (frame) {
    dl_find_object &result = *search.result;
    result = {};
    result.dlfo_map_start = reinterpret_cast<void *>(begin);
    result.dlfo_map_end = reinterpret_cast<void *>(end);
    result.dlfo_eh_frame =
        reinterpret_cast<void *>(info->dlpi_addr + frame->p_vaddr);
    search.found = true;
  }
  return 1;
}

extern "C" __attribute__((visibility("hidden"))) int
_dl_find_object(void *address, dl_find_object *result) noexcept {
  Search search = {reinterpret_cast<uintptr_t>(address), result};
  dl_iterate_phdr(visitObject, &search);
  return search.found ? 0 : -1;
}

#endif // DLFO_STRUCT_HAS_EH_DBASE
