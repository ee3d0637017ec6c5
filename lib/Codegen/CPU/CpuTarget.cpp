//===- CpuTarget.cpp - Properties of the target CPU -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/CpuTarget.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;

namespace heddle::cpu {

namespace {
constexpr StringLiteral marchNames[] = {"native", "x86-64-v3", "x86-64-v4",
                                        "amx", "amx-fp16"};

/// The features that every supported CPU has. `avx512Features` are those that a
/// CPU with AVX-512 has in addition.
constexpr StringLiteral baseFeatures[] = {"avx2", "fma", "f16c", "bmi2"};
constexpr StringLiteral avx512Features[] = {"avx512f", "avx512bw", "avx512dq",
                                            "avx512vl"};
constexpr StringLiteral amxFeatures[] = {"amx-tile", "amx-bf16", "amx-int8"};

void require(CpuTarget &target, ArrayRef<StringLiteral> features) {
  for (StringRef feature : features)
    target.required.push_back(feature.str());
}

/// Sets the fields of `target` that depend on instruction sets. Even for the
/// target `native` (this machine's CPU), code generation uses only AVX2 and the
/// instruction sets that the arguments name. So the list of features that a
/// binary checks is short and exact.
void setLevels(CpuTarget &target, bool avx512, bool vnni, bool bf16, bool amx,
               bool amxFp16) {
  target.hasAvx512 = avx512;
  target.hasVnni = avx512 && vnni;
  target.hasBf16Dot = avx512 && bf16;
  target.hasAmx = target.hasVnni && target.hasBf16Dot && amx;
  target.hasAmxFp16 = target.hasAmx && amxFp16;
  target.vectorBits = avx512 ? 512 : 256;
  target.cpu = avx512 ? "x86-64-v4" : "x86-64-v3";
  require(target, baseFeatures);
  if (target.hasAvx512)
    require(target, avx512Features);
  auto use = [&](StringRef feature) {
    target.required.push_back(feature.str());
    target.features += (target.features.empty() ? "+" : ",+") + feature.str();
  };
  if (target.hasVnni)
    use("avx512vnni");
  if (target.hasBf16Dot)
    use("avx512bf16");
  if (target.hasAmx)
    for_each(amxFeatures, use);
  if (target.hasAmxFp16)
    use("amx-fp16");
}

std::optional<CpuTarget> hostTarget() {
  StringMap<bool, MallocAllocator> features = sys::getHostCPUFeatures();
  auto hasAll = [&](ArrayRef<StringLiteral> names) {
    return all_of(names, [&](StringRef name) { return features.lookup(name); });
  };
  if (!hasAll(baseFeatures))
    return std::nullopt;

  CpuTarget target;
  target.tune = sys::getHostCPUName().str();
  setLevels(target, hasAll(avx512Features), features.lookup("avx512vnni"),
            features.lookup("avx512bf16"), hasAll(amxFeatures),
            features.lookup("amx-fp16"));
  return target;
}
} // namespace

ArrayRef<StringLiteral> CpuTarget::names() { return marchNames; }

std::optional<CpuTarget> CpuTarget::parse(StringRef march) {
  std::optional<CpuTarget> target;
  if (march == "native") {
    target = hostTarget();
  } else if (march == "x86-64-v3" || march == "x86-64-v4") {
    target.emplace();
    setLevels(*target, march == "x86-64-v4", /*vnni=*/false, /*bf16=*/false,
              /*amx=*/false, /*amxFp16=*/false);
  } else if (march == "amx" || march == "amx-fp16") {
    target.emplace();
    setLevels(*target, /*avx512=*/true, /*vnni=*/true, /*bf16=*/true,
              /*amx=*/true, /*amxFp16=*/march == "amx-fp16");
  }
  if (target)
    target->march = march.str();
  return target;
}

} // namespace heddle::cpu
