//===- KernelImage.cpp - Loads the kernels of a plan ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps an ELF shared object from memory, relocates it, and protects its pages.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/KernelImage.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cstring>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace heddle::rt;

namespace {

[[noreturn]] void malformed(const std::string &what) {
  heddle::fail("H0384", "the kernels cannot be loaded: " + what,
               "compile the binary again");
}

/// Reads an ELF file in a buffer. Checks that every access is within the
/// buffer.
class ElfReader {
public:
  ElfReader(const void *data, size_t size)
      : data(static_cast<const char *>(data)), size(size) {}

  /// Copies `count` structs of type T from `offset`. They are copied since the
  /// buffer may have any alignment.
  template <typename T>
  std::vector<T> read(uint64_t offset, uint64_t count) const {
    if (offset > size || count > (size - offset) / sizeof(T))
      malformed("a table reaches beyond the end of the file");
    std::vector<T> result(count);
    if (count != 0)
      memcpy(result.data(), data + offset, count * sizeof(T));
    return result;
  }

  /// Returns the string at `offset`, which ends at a zero byte or at the end of
  /// the buffer.
  std::string text(uint64_t offset) const {
    if (offset >= size)
      malformed("a name is beyond the end of the file");
    return std::string(data + offset, strnlen(data + offset, size - offset));
  }

private:
  const char *data;
  size_t size;
};

struct Symbols {
  std::vector<Elf64_Sym> entries;
  std::vector<std::string> names;
};

/// Loads one image. `base` and `bytes` are the address and size of its mapping,
/// once it is mapped.
class ImageLoader {
public:
  ImageLoader(const void *data, size_t size) : elf(data, size) {}

  void load();
  char *base = nullptr;
  size_t bytes = 0;
  Symbols symbols;

private:
  void checkHeader(const Elf64_Ehdr &header);
  void mapSegments();
  void readSymbols(const Elf64_Ehdr &header);
  void relocate(const Elf64_Ehdr &header);
  void relocateOne(const Elf64_Rela &relocation);
  uint64_t resolve(uint32_t symbol);
  void protect();

  ElfReader elf;
  std::vector<Elf64_Phdr> segments;
};

void ImageLoader::load() {
  Elf64_Ehdr header = elf.read<Elf64_Ehdr>(0, 1).front();
  checkHeader(header);
  segments = elf.read<Elf64_Phdr>(header.e_phoff, header.e_phnum);
  mapSegments();
  readSymbols(header);
  relocate(header);
  protect();
}

void ImageLoader::checkHeader(const Elf64_Ehdr &header) {
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    malformed("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN ||
      header.e_machine != EM_X86_64)
    malformed("not a shared object for x86-64");
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)))
    malformed("its tables have an unknown layout");
}

void ImageLoader::mapSegments() {
  constexpr uint64_t largest = uint64_t(1) << 32;
  uint64_t page = sysconf(_SC_PAGESIZE), end = 0;
  for (const Elf64_Phdr &segment : segments) {
    if (segment.p_type == PT_TLS)
      malformed("it has thread-local data");
    if (segment.p_type != PT_LOAD)
      continue;
    if (segment.p_vaddr > largest || segment.p_memsz > largest ||
        segment.p_filesz > segment.p_memsz)
      malformed("a segment has an impossible size");
    end = std::max(end, segment.p_vaddr + segment.p_memsz);
  }
  if (end == 0)
    malformed("it has no segment to load");
  bytes = (end + page - 1) / page * page;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    malformed("no memory for " + std::to_string(bytes) + " bytes");
  base = static_cast<char *>(memory);
  for (const Elf64_Phdr &segment : segments) {
    if (segment.p_type != PT_LOAD)
      continue;
    std::vector<char> content =
        elf.read<char>(segment.p_offset, segment.p_filesz);
    if (!content.empty())
      memcpy(base + segment.p_vaddr, content.data(), content.size());
  }
}

void ImageLoader::readSymbols(const Elf64_Ehdr &header) {
  std::vector<Elf64_Shdr> sections =
      elf.read<Elf64_Shdr>(header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr &section : sections) {
    if (section.sh_type != SHT_DYNSYM)
      continue;
    if (section.sh_link >= sections.size())
      malformed("its symbols have no names");
    uint64_t strings = sections[section.sh_link].sh_offset;
    symbols.entries = elf.read<Elf64_Sym>(section.sh_offset,
                                          section.sh_size / sizeof(Elf64_Sym));
    for (const Elf64_Sym &entry : symbols.entries) {
      if (entry.st_shndx != SHN_UNDEF && entry.st_value >= bytes)
        malformed("a symbol is outside of its segments");
      symbols.names.push_back(elf.text(strings + entry.st_name));
    }
  }
}

void ImageLoader::relocate(const Elf64_Ehdr &header) {
  for (const Elf64_Shdr &section :
       elf.read<Elf64_Shdr>(header.e_shoff, header.e_shnum)) {
    if (!(section.sh_flags & SHF_ALLOC))
      continue;
    if (section.sh_type == SHT_REL || section.sh_type == SHT_RELR)
      malformed("it has relocations of an unknown kind");
    if (section.sh_type != SHT_RELA)
      continue;
    for (const Elf64_Rela &relocation : elf.read<Elf64_Rela>(
             section.sh_offset, section.sh_size / sizeof(Elf64_Rela)))
      relocateOne(relocation);
  }
}

/// Returns the address of a function of this process that the image may call;
/// 0 for any other name. LLVM emits calls of memcpy, memmove and memset for
/// copies and fills.
uint64_t hostFunction(const std::string &name) {
  if (name == "memcpy")
    return reinterpret_cast<uint64_t>(
        static_cast<void *(*)(void *, const void *, size_t)>(memcpy));
  if (name == "memmove")
    return reinterpret_cast<uint64_t>(
        static_cast<void *(*)(void *, const void *, size_t)>(memmove));
  if (name == "memset")
    return reinterpret_cast<uint64_t>(
        static_cast<void *(*)(void *, int, size_t)>(memset));
  return 0;
}

uint64_t ImageLoader::resolve(uint32_t symbol) {
  if (symbol >= symbols.entries.size())
    malformed("a relocation names no symbol");
  const Elf64_Sym &entry = symbols.entries[symbol];
  if (entry.st_shndx != SHN_UNDEF)
    return reinterpret_cast<uint64_t>(base) + entry.st_value;
  if (uint64_t address = hostFunction(symbols.names[symbol]))
    return address;
  malformed("they need '" + symbols.names[symbol] +
            "', which is defined nowhere");
}

void ImageLoader::relocateOne(const Elf64_Rela &relocation) {
  uint64_t value = 0;
  switch (ELF64_R_TYPE(relocation.r_info)) {
  case R_X86_64_NONE:
    return;
  case R_X86_64_RELATIVE:
    value = reinterpret_cast<uint64_t>(base) + relocation.r_addend;
    break;
  case R_X86_64_64:
  case R_X86_64_GLOB_DAT:
  case R_X86_64_JUMP_SLOT:
    value = resolve(ELF64_R_SYM(relocation.r_info)) + relocation.r_addend;
    break;
  default:
    malformed("it has relocations of an unknown kind");
  }
  if (bytes < sizeof(value) || relocation.r_offset > bytes - sizeof(value))
    malformed("a relocation is outside of its segments");
  memcpy(base + relocation.r_offset, &value, sizeof(value));
}

void ImageLoader::protect() {
  uint64_t page = sysconf(_SC_PAGESIZE);
  for (const Elf64_Phdr &segment : segments) {
    if (segment.p_type != PT_LOAD)
      continue;
    int protection = (segment.p_flags & PF_R ? PROT_READ : 0) |
                     (segment.p_flags & PF_W ? PROT_WRITE : 0) |
                     (segment.p_flags & PF_X ? PROT_EXEC : 0);
    uint64_t begin = segment.p_vaddr / page * page;
    uint64_t end = segment.p_vaddr + segment.p_memsz;
    if (mprotect(base + begin, end - begin, protection) != 0)
      malformed("this machine does not let it run");
  }
}

} // namespace

KernelImage::KernelImage(const void *data, size_t size) {
  ImageLoader loader(data, size);
  try {
    loader.load();
  } catch (...) {
    if (loader.base)
      munmap(loader.base, loader.bytes);
    throw;
  }
  base = loader.base;
  bytes = loader.bytes;
  for (size_t i = 0; i < loader.symbols.entries.size(); ++i) {
    const Elf64_Sym &entry = loader.symbols.entries[i];
    if (entry.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(entry.st_info) == STT_FUNC)
      define(loader.symbols.names[i],
             reinterpret_cast<KernelFunction>(base + entry.st_value));
  }
}

KernelImage::KernelImage(KernelImage &&other) noexcept {
  *this = std::move(other);
}

KernelImage &KernelImage::operator=(KernelImage &&other) noexcept {
  std::swap(base, other.base);
  std::swap(bytes, other.bytes);
  std::swap(symbols, other.symbols);
  return *this;
}

KernelImage::~KernelImage() {
  if (base)
    munmap(base, bytes);
}

KernelFunction KernelImage::find(const std::string &name) const {
  auto found = symbols.find(name);
  return found == symbols.end() ? nullptr : found->second;
}

void KernelImage::define(const std::string &name, KernelFunction function) {
  symbols[name] = function;
}
