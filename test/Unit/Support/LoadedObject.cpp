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

static ExitOnError exitOnError("object: ");

/// The loader of all objects: to make one costs as much as a small kernel. It
/// is never deleted, because objects in static variables still need it at exit.
static orc::LLJIT &loader() {
  static orc::LLJIT *jit = [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    auto created = exitOnError(orc::LLJITBuilder()
                                   .setPlatformSetUp(orc::setUpInactivePlatform)
                                   .create());
    orc::SymbolMap symbols;
    for (auto [name, address] : amxEmulation())
      symbols[created->mangleAndIntern(name)] = {
          orc::ExecutorAddr::fromPtr(address), JITSymbolFlags::Exported};
    exitOnError(created->getMainJITDylib().define(
        orc::absoluteSymbols(std::move(symbols))));
    return created.release();
  }();
  return *jit;
}

LoadedObject::LoadedObject(std::unique_ptr<MemoryBuffer> object,
                           const cpu::CpuTarget &target) {
  if (target.hasAmx && !target.emulatesAmx && rt::hasCpuFeature("amx-tile"))
    rt::requireCpuFeatures({"amx-tile"}, target.march);
  static int64_t count = 0;
  library =
      &exitOnError(loader().createJITDylib("object" + std::to_string(count++)));
  library->addToLinkOrder(loader().getMainJITDylib());
  exitOnError(loader().addObjectFile(*library, std::move(object)));
}

LoadedObject::~LoadedObject() {
  exitOnError(loader().getExecutionSession().removeJITDylib(*library));
}

orc::ExecutorAddr LoadedObject::addressOf(StringRef symbol) const {
  return exitOnError(loader().lookup(*library, symbol));
}

} // namespace heddle::test
