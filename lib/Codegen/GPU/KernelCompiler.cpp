//===- KernelCompiler.cpp - One plan.kernel to PTX ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SourceLines.h"
#include "heddle/Codegen/Common/Target.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace heddle::gpu {

config::Settings settingsOf(Operation *root) {
  return isa_and_nonnull<nn::ModelOp>(root) ? codegen::strategyOf(root)
                                            : config::Settings();
}

std::string describeTarget(StringRef chip, Operation *root) {
  bool tf32 = settingsOf(root).matmul == config::Matmul::Tf32;
  return (chip + (tf32 ? " tf32" : "")).str();
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

CompiledKernel::Launch launchOf(const MappedLaunch &mapped) {
  auto wide = [](std::optional<ArrayRef<int32_t>> sizes) {
    return SmallVector<int64_t, 3>(sizes->begin(), sizes->end());
  };
  mlir::gpu::GPUFuncOp func = mapped.func;
  return {func.getName().str(), wide(func.getKnownGridSize()),
          wide(func.getKnownBlockSize()), mapped.cluster, mapped.sharedBytes};
}

/// The most that any function needs of each, with the shared memory that its
/// launch adds.
static Resources largest(const CompiledKernel &kernel,
                         const llvm::StringMap<Resources> &functions) {
  Resources most;
  for (const CompiledKernel::Launch &launch : kernel.launches) {
    Resources one = functions.lookup(launch.symbol);
    most.registers = std::max(most.registers, one.registers);
    most.sharedBytes =
        std::max(most.sharedBytes, one.sharedBytes + launch.sharedBytes);
    most.localBytes = std::max(most.localBytes, one.localBytes);
  }
  return most;
}

FailureOr<CompiledKernel> compileKernel(const codegen::KernelSource &source,
                                        const Chip &chip, StringRef ptxas,
                                        MLIRContext &context) {
  OwningOpRef<ModuleOp> parsed = codegen::parseSource(source, context);
  if (!parsed)
    return failure();
  auto kernel = *parsed->getOps<planir::KernelOp>().begin();
  kernel.setSymName(source.symbol); // Functions are named after it.
  auto builder = OpBuilder::atBlockEnd(parsed->getBody());
  auto module = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(),
                                                       source.symbol + "_gpu");
  FailureOr<MappedKernel> mapped = mapKernel(kernel, module, chip);
  if (failed(mapped))
    return failure();
  CompiledKernel result;
  result.reason = mapped->reason;
  if (!*mapped)
    return result;
  // Lowering replaces the functions, which know their launches.
  for (const MappedLaunch &launch : mapped->launches)
    result.launches.push_back(launchOf(launch));
  result.scratchBytes = mapped->scratchBytes;
  if (failed(lowerToNvvm(module)))
    return failure();
  llvm::Expected<std::string> ptx = emitPtx(module, chip.name);
  if (!ptx)
    return kernel.emitError() << llvm::toString(ptx.takeError());
  result.ptx = std::move(*ptx);
  FailureOr<std::string> plain = compilePlain(kernel, chip);
  if (failed(plain))
    return failure();
  result.plain = std::move(*plain);
  if (ptxas.empty())
    return result;
  llvm::Expected<Assembly> assembly =
      assemblePtx(ptxas, withoutSourceLines(result.ptx), chip.name);
  if (!assembly)
    return kernel.emitError("ptxas refuses a kernel: ")
           << llvm::toString(assembly.takeError());
  result.resources = largest(result, assembly->functions);
  result.cubin = llvm::encodeBase64(assembly->cubin);
  return result;
}

//===----------------------------------------------------------------------===//
// Bytes: a line of JSON, and the PTX
//===----------------------------------------------------------------------===//

std::string toBytes(const CompiledKernel &kernel) {
  llvm::json::Array launches;
  for (const CompiledKernel::Launch &launch : kernel.launches)
    launches.push_back(
        llvm::json::Object{{"symbol", launch.symbol},
                           {"grid", llvm::json::Array(launch.grid)},
                           {"block", llvm::json::Array(launch.block)},
                           {"cluster", llvm::json::Array(launch.cluster)},
                           {"shared", launch.sharedBytes}});
  llvm::json::Object line{{"launches", std::move(launches)},
                          {"scratch", kernel.scratchBytes},
                          {"reason", kernel.reason},
                          {"plain", kernel.plain},
                          {"cubin", kernel.cubin}};
  if (kernel.resources)
    line["resources"] = llvm::json::Array{kernel.resources->registers,
                                          kernel.resources->sharedBytes,
                                          kernel.resources->localBytes};
  std::string bytes;
  llvm::raw_string_ostream(bytes) << llvm::json::Value(std::move(line)) << "\n"
                                  << kernel.ptx;
  return bytes;
}

std::string sealOf(const CompiledKernel &kernel, StringRef sourceHash) {
  CompiledKernel launched;
  launched.launches = kernel.launches;
  launched.scratchBytes = kernel.scratchBytes;
  return codegen::hashOf(toBytes(launched) + "\n" + sourceHash.str());
}

using Numbers = std::vector<int64_t>;

static bool fromJSON(const llvm::json::Value &value,
                     CompiledKernel::Launch &launch, llvm::json::Path path) {
  llvm::json::ObjectMapper map(value, path);
  Numbers grid, block, cluster;
  bool isRead = map && map.map("symbol", launch.symbol) &&
                map.map("grid", grid) && map.map("block", block) &&
                map.map("cluster", cluster) &&
                map.map("shared", launch.sharedBytes);
  launch.grid.assign(grid.begin(), grid.end());
  launch.block.assign(block.begin(), block.end());
  launch.cluster.assign(cluster.begin(), cluster.end());
  return isRead;
}

std::optional<CompiledKernel> fromBytes(StringRef bytes) {
  auto [line, ptx] = bytes.split('\n');
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(line);
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }
  CompiledKernel kernel;
  kernel.ptx = ptx.str();
  std::optional<Numbers> resources;
  llvm::json::Path::Root root;
  llvm::json::ObjectMapper map(*value, root);
  if (!map || !map.map("launches", kernel.launches) ||
      !map.map("scratch", kernel.scratchBytes) ||
      !map.map("reason", kernel.reason) || !map.map("plain", kernel.plain) ||
      !map.map("cubin", kernel.cubin) ||
      !map.mapOptional("resources", resources))
    return std::nullopt;
  if (resources && resources->size() == 3)
    kernel.resources = {(*resources)[0], (*resources)[1], (*resources)[2]};
  return kernel;
}

} // namespace heddle::gpu
