//===- KernelCompiler.cpp - One plan.kernel to PTX ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles one kernel: maps its operations to the GPU, lowers them, and
// translates them to PTX. If ptxas is installed, it makes a cubin, too. Also
// writes and reads compiled kernels in the kernel cache.
//
//===----------------------------------------------------------------------===//

#include "SourceLines.h"
#include "heddle/Codegen/Common/Target.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Base64.h"
#include <nlohmann/json.hpp>

using namespace mlir;
using nlohmann::json;

namespace heddle::gpu {

config::Settings settingsOf(Operation *root) {
  return isa_and_nonnull<nn::ModelOp>(root) ? codegen::strategyOf(root)
                                            : config::Settings();
}

void setProducts(Chip &target, Operation *root) {
  const config::Settings settings = settingsOf(root);
  target.matmul = settings.matmul;
  target.fixedSums = settings.mode != config::Mode::Train;
}

std::string describeTarget(StringRef chip, Operation *root) {
  Chip target;
  setProducts(target, root);
  bool tf32 = target.matmul == config::Matmul::Tf32;
  return (chip + (tf32 ? " tf32" : "") +
          (target.fixedSums ? " fixed sums" : ""))
      .str();
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

/// Returns the maximum of each resource over all functions of a kernel. Shared
/// memory includes the dynamic shared memory that the launch adds.
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
  kernel.setSymName(source.symbol); // Functions take this name.
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
  // Reads the launches from the functions now, since lowering replaces these
  // functions.
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
// Format of a kernel in the cache: a line of JSON, then the PTX
//===----------------------------------------------------------------------===//

std::string toBytes(const CompiledKernel &kernel) {
  json launches = json::array();
  for (const CompiledKernel::Launch &launch : kernel.launches)
    launches.push_back({{"symbol", launch.symbol},
                        {"grid", launch.grid},
                        {"block", launch.block},
                        {"cluster", launch.cluster},
                        {"shared", launch.sharedBytes}});
  json line = {{"launches", std::move(launches)},
               {"scratch", kernel.scratchBytes},
               {"reason", kernel.reason},
               {"plain", kernel.plain},
               {"cubin", kernel.cubin}};
  if (kernel.resources)
    line["resources"] = {kernel.resources->registers,
                         kernel.resources->sharedBytes,
                         kernel.resources->localBytes};
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n" +
         kernel.ptx;
}

std::string sealOf(const CompiledKernel &kernel, StringRef sourceHash) {
  CompiledKernel launched;
  launched.launches = kernel.launches;
  launched.scratchBytes = kernel.scratchBytes;
  return codegen::hashOf(toBytes(launched) + "\n" + sourceHash.str());
}

/// Reads a member of a JSON object, without exceptions: a number, a string or a
/// list of numbers. Returns false if the member is missing or has another type.
template <typename T>
static bool read(const json &object, const char *key, T &to) {
  auto at = object.find(key);
  auto isNumber = [](const json &value) { return value.is_number_integer(); };
  bool isRead = at != object.end() &&
                (std::is_same_v<T, std::string> ? at->is_string()
                 : std::is_same_v<T, int64_t>
                     ? isNumber(*at)
                     : at->is_array() && llvm::all_of(*at, isNumber));
  if (isRead)
    at->get_to(to);
  return isRead;
}

static bool read(const json &value, CompiledKernel::Launch &launch) {
  return read(value, "symbol", launch.symbol) &&
         read(value, "grid", launch.grid) &&
         read(value, "block", launch.block) &&
         read(value, "cluster", launch.cluster) &&
         read(value, "shared", launch.sharedBytes);
}

std::optional<CompiledKernel> fromBytes(StringRef bytes) {
  auto [text, ptx] = bytes.split('\n');
  // If the text is no valid JSON, the parsed value has no members, so that
  // `find` and `read` fail and the result is nullopt.
  json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
  CompiledKernel kernel;
  kernel.ptx = ptx.str();
  auto launches = line.find("launches");
  if (launches == line.end() || !launches->is_array() ||
      !read(line, "scratch", kernel.scratchBytes) ||
      !read(line, "reason", kernel.reason) ||
      !read(line, "plain", kernel.plain) || !read(line, "cubin", kernel.cubin))
    return std::nullopt;
  for (const json &launch : *launches)
    if (!read(launch, kernel.launches.emplace_back()))
      return std::nullopt;
  SmallVector<int64_t> resources;
  if (read(line, "resources", resources) && resources.size() == 3)
    kernel.resources = {resources[0], resources[1], resources[2]};
  return kernel;
}

} // namespace heddle::gpu
