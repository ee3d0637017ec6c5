//===- EmitPhase.cpp - The emit phase -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmitPhase.h"
#include "dialects/Plan/PlanDialect.h"
#include "heddle/Codegen/Common/Target.h"
#include "heddle/Emit/PlanFromModule.h"

using namespace mlir;
using namespace heddle;

LogicalResult heddle::emitDiagnostic(MLIRContext &context,
                                     const heddle::Diagnostic &wrong) {
  InFlightDiagnostic diagnostic = emitError(UnknownLoc::get(&context))
                                  << wrong.code << ": " << wrong.message;
  for (const std::string &note : wrong.notes)
    diagnostic.attachNote() << note;
  if (!wrong.help.empty())
    diagnostic.attachNote() << "help: " << wrong.help;
  return diagnostic;
}

/// Returns the code of a plan's kernels as one image, which includes the
/// kernels that the host runs.
static FailureOr<std::string> imageOf(const emit::Parts &parts,
                                      const codegen::Target &target,
                                      planir::ProgramOp program) {
  if (parts.hostObjects.empty())
    return target.imageOf(parts.objects, "");
  FailureOr<const codegen::Target *> cores = codegen::findHostTarget(program);
  if (failed(cores))
    return failure();
  FailureOr<std::string> host = (*cores)->imageOf(parts.hostObjects, "");
  if (failed(host))
    return failure();
  return target.imageOf(parts.objects, *host);
}

FailureOr<emit::Code> heddle::codeOf(ModuleOp module,
                                     const CompileOptions &options,
                                     std::vector<std::string> phases) {
  auto programs = llvm::to_vector(module.getOps<planir::ProgramOp>());
  if (programs.empty())
    return module.emitError("H0396: holds no plan.program to emit");
  planir::ProgramOp program = programs.front();
  FailureOr<const codegen::Target *> target = codegen::findTarget(program);
  if (failed(target))
    return failure();
  FailureOr<plan::DeviceKind> device = (*target)->deviceOf(program);
  FailureOr<std::vector<std::string>> features =
      (*target)->requirementsOf(program);
  if (failed(device) || failed(features))
    return failure();

  FailureOr<emit::Parts> parts = emit::planFromModule(programs);
  if (failed(parts))
    return failure();
  // If only the plan is wanted, the kernels need no code.
  FailureOr<std::string> image =
      options.makesCode() ? imageOf(*parts, **target, program) : std::string();
  if (failed(image))
    return failure();
  plan::Plan &plan = parts->plan;
  plan.version = HEDDLE_VERSION;
  plan.device = *device;
  plan.features = *features;
  plan.phases = std::move(phases);
  if (!options.cluster.empty())
    plan.strategy["cluster"] = nlohmann::json::parse(options.cluster);
  return emit::Code{std::move(plan), std::move(*image)};
}
