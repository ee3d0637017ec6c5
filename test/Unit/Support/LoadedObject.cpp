//===- LoadedObject.cpp - Object code in this process --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoadedObject.h"
#include "AmxEmulation.h"
#include "heddle/runtime/devices/cpu/CpuFeatures.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

using namespace llvm;

namespace heddle::test {

struct LoadedObject::Loader {
  std::unique_ptr<orc::LLJIT> jit;
  ExitOnError exitOnError{"object: "};
};

LoadedObject::LoadedObject(std::unique_ptr<MemoryBuffer> object,
                           const cpu::CpuTarget &target)
    : loader(std::make_unique<Loader>()) {
  if (target.hasAmx && !target.emulatesAmx && rt::hasCpuFeature("amx-tile"))
    rt::requireCpuFeatures({"amx-tile"}, target.march);
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  loader->jit = loader->exitOnError(orc::LLJITBuilder().create());
  orc::SymbolMap symbols;
  for (auto [name, address] : amxEmulation())
    symbols[loader->jit->mangleAndIntern(name)] = {
        orc::ExecutorAddr::fromPtr(address), JITSymbolFlags::Exported};
  loader->exitOnError(loader->jit->getMainJITDylib().define(
      orc::absoluteSymbols(std::move(symbols))));
  loader->exitOnError(loader->jit->addObjectFile(std::move(object)));
}

LoadedObject::~LoadedObject() = default;

orc::ExecutorAddr LoadedObject::addressOf(StringRef symbol) const {
  return loader->exitOnError(loader->jit->lookup(symbol));
}

} // namespace heddle::test
