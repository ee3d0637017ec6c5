//===- CpuTarget.h - Properties of the target CPU ---------------*- C++ -*-===//
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

/// The properties of the CPU that a binary will run on, as far as code
/// generation depends on them.
struct CpuTarget {
  std::string march;    ///< The value of `--march`.
  std::string cpu;      ///< LLVM's name of the CPU whose instructions are used.
  std::string tune;     ///< LLVM's name of the CPU to schedule for, or empty.
  std::string features; ///< Features used beyond `cpu`, as "+avx512bf16".
  /// Features that the CPU must have, by LLVM's names: avx2, fma, avx512f,
  /// avx512bf16, amx-bf16 ... A binary checks them when it starts. With
  /// amx-tile the process must first ask Linux for permission to use tile data.
  std::vector<std::string> required;
  int64_t vectorBits = 256;
  bool hasAvx512 = false;
  bool hasVnni = false;    ///< Has vpdpwssd on 512 bits.
  bool hasBf16Dot = false; ///< Has vdpbf16ps and vcvtneps2bf16 on 512 bits.
  bool hasAmx = false;     ///< Has tdpbf16ps and tdpbssd.
  bool hasAmxFp16 = false; ///< Has tdpfp16ps, too.
  /// AMX instructions become calls of functions `heddle_amx_...`, so that tests
  /// can run the kernels on a CPU without AMX.
  bool emulatesAmx = false;

  /// The number of f32 elements in one vector.
  int64_t lanes() const { return vectorBits / 32; }

  /// The target with the name `march`, one of `names()`; "native" is the CPU
  /// that this process runs on. None if the name is unknown, or the CPU has no
  /// AVX2.
  static std::optional<CpuTarget> parse(llvm::StringRef march);

  /// The names that `parse` accepts.
  static llvm::ArrayRef<llvm::StringLiteral> names();
};

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_CPUTARGET_H
