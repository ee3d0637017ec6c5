//===- CpuFeatures.cpp - Features of this machine's CPU -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A table of CPU features by their bits of cpuid, and the checks that use it.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cpuid.h>
#include <cstdint>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>

using namespace heddle;

namespace {

enum Register { EAX, EBX, ECX, EDX };

/// Bits of XCR0: the registers that the operating system must save for a
/// feature.
enum SavedState : uint64_t {
  None = 0,
  Avx = 0x6,
  Avx512 = 0xe6,
  Tiles = 0x60000,
};

/// A feature, and the bit that shows it in the result of the instruction cpuid.
struct Feature {
  const char *name; ///< LLVM's name.
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  int bit;
  SavedState state = None;
};

constexpr uint32_t extended = 0x80000000;

const Feature features[] = {
    {"sse3", 1, 0, ECX, 0},
    {"pclmul", 1, 0, ECX, 1},
    {"ssse3", 1, 0, ECX, 9},
    {"fma", 1, 0, ECX, 12, Avx},
    {"cx16", 1, 0, ECX, 13},
    {"sse4.1", 1, 0, ECX, 19},
    {"sse4.2", 1, 0, ECX, 20},
    {"crc32", 1, 0, ECX, 20},
    {"movbe", 1, 0, ECX, 22},
    {"popcnt", 1, 0, ECX, 23},
    {"aes", 1, 0, ECX, 25},
    {"xsave", 1, 0, ECX, 27},
    {"avx", 1, 0, ECX, 28, Avx},
    {"f16c", 1, 0, ECX, 29, Avx},
    {"rdrnd", 1, 0, ECX, 30},
    {"x87", 1, 0, EDX, 0},
    {"cx8", 1, 0, EDX, 8},
    {"cmov", 1, 0, EDX, 15},
    {"mmx", 1, 0, EDX, 23},
    {"fxsr", 1, 0, EDX, 24},
    {"sse", 1, 0, EDX, 25},
    {"sse2", 1, 0, EDX, 26},
    {"fsgsbase", 7, 0, EBX, 0},
    {"sgx", 7, 0, EBX, 2},
    {"bmi", 7, 0, EBX, 3},
    {"rtm", 7, 0, EBX, 11},
    {"avx2", 7, 0, EBX, 5, Avx},
    {"bmi2", 7, 0, EBX, 8},
    {"invpcid", 7, 0, EBX, 10},
    {"avx512f", 7, 0, EBX, 16, Avx512},
    {"evex512", 7, 0, EBX, 16, Avx512},
    {"avx512dq", 7, 0, EBX, 17, Avx512},
    {"rdseed", 7, 0, EBX, 18},
    {"adx", 7, 0, EBX, 19},
    {"avx512ifma", 7, 0, EBX, 21, Avx512},
    {"clflushopt", 7, 0, EBX, 23},
    {"clwb", 7, 0, EBX, 24},
    {"avx512cd", 7, 0, EBX, 28, Avx512},
    {"sha", 7, 0, EBX, 29},
    {"avx512bw", 7, 0, EBX, 30, Avx512},
    {"avx512vl", 7, 0, EBX, 31, Avx512},
    {"avx512vbmi", 7, 0, ECX, 1, Avx512},
    {"pku", 7, 0, ECX, 4},
    {"waitpkg", 7, 0, ECX, 5},
    {"avx512vbmi2", 7, 0, ECX, 6, Avx512},
    {"shstk", 7, 0, ECX, 7},
    {"gfni", 7, 0, ECX, 8},
    {"vaes", 7, 0, ECX, 9, Avx},
    {"vpclmulqdq", 7, 0, ECX, 10, Avx},
    {"avx512vnni", 7, 0, ECX, 11, Avx512},
    {"avx512bitalg", 7, 0, ECX, 12, Avx512},
    {"avx512vpopcntdq", 7, 0, ECX, 14, Avx512},
    {"rdpid", 7, 0, ECX, 22},
    {"kl", 7, 0, ECX, 23},
    {"cldemote", 7, 0, ECX, 25},
    {"movdiri", 7, 0, ECX, 27},
    {"movdir64b", 7, 0, ECX, 28},
    {"enqcmd", 7, 0, ECX, 29},
    {"uintr", 7, 0, EDX, 5},
    {"avx512vp2intersect", 7, 0, EDX, 8, Avx512},
    {"serialize", 7, 0, EDX, 14},
    {"tsxldtrk", 7, 0, EDX, 16},
    {"pconfig", 7, 0, EDX, 18},
    {"amx-bf16", 7, 0, EDX, 22, Tiles},
    {"avx512fp16", 7, 0, EDX, 23, Avx512},
    {"amx-tile", 7, 0, EDX, 24, Tiles},
    {"amx-int8", 7, 0, EDX, 25, Tiles},
    {"avxvnni", 7, 1, EAX, 4, Avx},
    {"avx512bf16", 7, 1, EAX, 5, Avx512},
    {"amx-fp16", 7, 1, EAX, 21, Tiles},
    {"hreset", 7, 1, EAX, 22},
    {"avxifma", 7, 1, EAX, 23, Avx},
    {"avxvnniint8", 7, 1, EDX, 4, Avx},
    {"avxneconvert", 7, 1, EDX, 5, Avx},
    {"amx-complex", 7, 1, EDX, 8, Tiles},
    {"avxvnniint16", 7, 1, EDX, 10, Avx},
    {"prefetchi", 7, 1, EDX, 14},
    {"xsaveopt", 0xd, 1, EAX, 0},
    {"xsavec", 0xd, 1, EAX, 1},
    {"xsaves", 0xd, 1, EAX, 3},
    {"ptwrite", 0x14, 0, EBX, 4},
    {"sahf", extended + 1, 0, ECX, 0},
    {"lzcnt", extended + 1, 0, ECX, 5},
    {"sse4a", extended + 1, 0, ECX, 6},
    {"prfchw", extended + 1, 0, ECX, 8},
    {"xop", extended + 1, 0, ECX, 11, Avx},
    {"fma4", extended + 1, 0, ECX, 16, Avx},
    {"tbm", extended + 1, 0, ECX, 21},
    {"mwaitx", extended + 1, 0, ECX, 29},
    {"64bit", extended + 1, 0, EDX, 29},
    {"clzero", extended + 8, 0, EBX, 0},
    {"rdpru", extended + 8, 0, EBX, 4},
    {"wbnoinvd", extended + 8, 0, EBX, 9},
};

const Feature *findFeature(const std::string &name) {
  for (const Feature &feature : features)
    if (name == feature.name)
      return &feature;
  return nullptr;
}

/// Reads XCR0. Its bits say which registers the operating system saves when it
/// switches threads.
uint64_t savedState() {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27)))
    return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | (uint64_t(high) << 32);
}

/// Requests AMX's tile registers. Linux allows their use only to processes that
/// request them.
bool requestTiles() {
  constexpr int requestPermission = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

std::string withoutSign(const std::string &name) {
  return !name.empty() && name[0] == '+' ? name.substr(1) : name;
}

} // namespace

bool heddle::rt::isKnownCpuFeature(const std::string &name) {
  return findFeature(name) != nullptr;
}

bool heddle::rt::hasCpuFeature(const std::string &name) {
  const Feature *feature = findFeature(name);
  if (!feature)
    return false;
  uint32_t r[4];
  if (!__get_cpuid_count(feature->leaf, feature->subleaf, &r[EAX], &r[EBX],
                         &r[ECX], &r[EDX]))
    return false;
  // Leaf 7 of cpuid reports how many subleaves it has. Subleaf 1 must not be
  // read if there is none.
  if (feature->subleaf == 1 && feature->leaf == 7) {
    uint32_t most, b, c, d;
    if (!__get_cpuid_count(7, 0, &most, &b, &c, &d) || most < 1)
      return false;
  }
  if (!(r[feature->reg] >> feature->bit & 1))
    return false;
  return (savedState() & feature->state) == feature->state;
}

void heddle::rt::requireCpuFeatures(const std::vector<std::string> &required,
                                    const std::string &march) {
  std::string missing, unknown;
  bool needsTiles = false;
  for (const std::string &entry : required) {
    std::string name = withoutSign(entry);
    if (!isKnownCpuFeature(name))
      unknown += (unknown.empty() ? "" : ", ") + name;
    else if (!hasCpuFeature(name))
      missing += (missing.empty() ? "" : ", ") + name;
    needsTiles |= name == "amx-tile";
  }
  if (!missing.empty())
    fail("H0291",
         "this binary was compiled with --march " + march + "; this CPU (" +
             cpuName() + ") lacks: " + missing,
         "compile it on this machine with --march native, or with --march "
         "x86-64-v3");
  if (!unknown.empty())
    fail("H0294",
         "this binary needs CPU features that cannot be checked: " + unknown,
         "compile with --march x86-64-v3 or --march x86-64-v4");
  if (needsTiles && !requestTiles())
    fail("H0293", "the system does not give this process the AMX registers",
         "use Linux 5.16 or later, or compile with --march x86-64-v4");
}

std::string heddle::rt::cpuName() {
  uint32_t registers[12];
  for (uint32_t i = 0; i < 3; ++i)
    if (!__get_cpuid(extended + 2 + i, &registers[4 * i], &registers[4 * i + 1],
                     &registers[4 * i + 2], &registers[4 * i + 3]))
      return "x86-64";
  char text[sizeof(registers) + 1] = {};
  memcpy(text, registers, sizeof(registers));
  std::string name = text;
  size_t begin = name.find_first_not_of(' ');
  size_t end = name.find_last_not_of(' ');
  return begin == std::string::npos ? "x86-64"
                                    : name.substr(begin, end - begin + 1);
}
