//===- ServingPrograms.cpp - Run programs that serve ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ServingPrograms.h"

using namespace heddle;
using namespace heddle::rt;

void ServingPrograms::add(const LoadedProgram &program) {
  std::vector<const Value *> outputs;
  for (size_t i = 0; i < program.program().outputs.size(); ++i)
    outputs.push_back(&program.output(i));
  staged.emplace(&program,
                 Staged{Staging(session, program, outputs, buffers), -1});
}

void ServingPrograms::run(const LoadedProgram &program) {
  Staged &one = staged.at(&program);
  LaunchTime *times = trace ? trace->beginStep(program) : nullptr;
  one.lastRun = one.staging.run(/*outcomes=*/{}, times);
  if (trace)
    trace->endStep(one.lastRun);
}

const char *ServingPrograms::result(const LoadedProgram &program,
                                    const Value &output) {
  Staged &one = staged.at(&program);
  return one.staging.result<char>(output, one.lastRun);
}
