//===- CpuTarget.h - The x86-64 CPU that kernels are made for ---*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_CPUTARGET_H
#define HEDDLE_CODEGEN_CPU_CPUTARGET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::cpu {

/// What code generation knows of the CPU that the binary will run on.
struct CpuTarget {
  std::string march;    ///< The name the user gave.
  std::string cpu;      ///< LLVM's name of the CPU whose instructions are used.
  std::string tune;     ///< LLVM's name of the CPU to schedule for, or empty.
  std::string features; ///< What is used beyond `cpu`: "+avx512bf16".
  /// Features that the binary checks when it starts, named as LLVM and
  /// `cpuid` users name them: avx2, fma, avx512f, avx512bf16, amx-bf16 ...
  /// With amx-tile the process must ask the kernel for tile data first.
  std::vector<std::string> required;
  int64_t vectorBits = 256;
  bool hasAvx512 = false;
  bool hasVnni = false;    ///< vpdpwssd on 512 bits.
  bool hasBf16Dot = false; ///< vdpbf16ps and vcvtneps2bf16 on 512 bits.
  bool hasAmx = false;     ///< tdpbf16ps and tdpbssd.
  /// Tile instructions become calls to `heddle_amx_...`: a test can then run
  /// the kernels on a CPU that has none.
  bool emulatesAmx = false;

  /// Elements of type f32 in one vector.
  int64_t lanes() const { return vectorBits / 32; }

  /// The target called `march`: one of `names()`; "native" is the machine this
  /// runs on. Nothing when the name is unknown, or the machine has no AVX2.
  static std::optional<CpuTarget> parse(llvm::StringRef march);

  /// Every name that `parse` knows.
  static llvm::ArrayRef<llvm::StringLiteral> names();
};

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_CPUTARGET_H
