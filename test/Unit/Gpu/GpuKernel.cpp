//===- GpuKernel.cpp - Support for tests of GPU kernels -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <sys/mman.h>

using namespace mlir;

namespace heddle::test {

namespace {
constexpr char fenceByte = 0x5a;

const llvm::fltSemantics &semanticsOf(Element type) {
  return type == Element::F32    ? llvm::APFloat::IEEEsingle()
         : type == Element::BF16 ? llvm::APFloat::BFloat()
                                 : llvm::APFloat::IEEEhalf();
}
} // namespace

const char *nameOf(Element type) {
  return type == Element::F32 ? "f32" : type == Element::BF16 ? "bf16" : "f16";
}

MLIRContext &gpuContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    gpu::registerGpuCodegen(registry);
    auto *result = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    result->loadAllAvailableDialects();
    return result;
  }();
  return *context;
}

OwningOpRef<ModuleOp> parseModule(const std::string &text) {
  auto module = parseSourceString<ModuleOp>(text, &gpuContext());
  EXPECT_TRUE(module) << text;
  return module;
}

std::string kernelText(const std::string &generator,
                       const std::string &arguments, const std::string &results,
                       const std::string &body, const std::string &yielded,
                       const std::string &leading) {
  int64_t count = 0;
  for (size_t at = results.find("tensor"); at != std::string::npos;
       at = results.find("tensor", at + 1))
    ++count;
  std::string ties;
  for (int64_t i = 0; i < count; ++i)
    ties += i ? ", -1" : "-1";
  return "plan.kernel @kernel(" + arguments + ") -> (" + results +
         ") attributes {generator = #plan.generator<" + generator +
         ">, ties = array<i64: " + ties + ">" +
         (leading.empty()
              ? ""
              : ", leading_dimensions = array<i64: " + leading + ">") +
         "} {\n" + body + "\nplan.yield " + yielded + " : " + results + "\n}\n";
}

Buffer::Buffer(int64_t elements, Element type)
    : elements(elements), type(type),
      bytes(numBytes() + 2 * fence + alignment, fenceByte) {}

const char *Buffer::start() const {
  return reinterpret_cast<const char *>(llvm::alignTo(
      reinterpret_cast<uintptr_t>(bytes.data()) + fence, alignment));
}

void Buffer::fill(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  for (int64_t i = 0; i < elements; ++i) {
    llvm::APFloat value(draw(random));
    bool losesInfo;
    value.convert(semanticsOf(type), llvm::APFloat::rmNearestTiesToEven,
                  &losesInfo);
    uint64_t bits = value.bitcastToAPInt().getZExtValue();
    std::memcpy(static_cast<char *>(data()) + i * bytesOfEach(), &bits,
                bytesOfEach());
  }
}

double Buffer::at(int64_t index) const {
  uint64_t bits = 0;
  std::memcpy(&bits, start() + index * bytesOfEach(), bytesOfEach());
  llvm::APFloat value(semanticsOf(type), llvm::APInt(8 * bytesOfEach(), bits));
  bool losesInfo;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

bool Buffer::isFenceIntact() const {
  for (int64_t i = 0; i < fence; ++i)
    if (start()[-1 - i] != fenceByte || start()[numBytes() + i] != fenceByte)
      return false;
  return true;
}

ZeroMemory::ZeroMemory(int64_t bytes)
    : bytes(bytes),
      address(bytes > 0
                  ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                  : nullptr) {
  EXPECT_NE(address, MAP_FAILED) << bytes << " bytes";
}

ZeroMemory::~ZeroMemory() {
  if (address)
    munmap(address, bytes);
}

static constexpr const char *chip = "sm_90";

static std::string emulate(const gpu::MappedKernel &mapped,
                           const std::vector<Buffer *> &buffers,
                           const std::vector<int64_t> &scalars,
                           emulator::Counters *counters) {
  auto kernel = gpu::EmulatedKernel::load(mapped, chip);
  if (!kernel)
    return llvm::toString(kernel.takeError());
  std::vector<void *> refs;
  for (Buffer *buffer : buffers)
    refs.push_back(buffer->data());
  std::string fault = (*kernel)->run(refs, scalars, counters);
  for (Buffer *buffer : buffers)
    EXPECT_TRUE(buffer->isFenceIntact());
  return fault;
}

std::string emulateKernel(const std::string &text,
                          std::vector<Buffer *> buffers,
                          std::vector<int64_t> scalars,
                          emulator::Counters *counters) {
  OwningOpRef<ModuleOp> module = parseModule(text);
  if (!module)
    return "the test's kernel does not parse";
  auto kernel = *module->getOps<planir::KernelOp>().begin();
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  auto target = builder.create<mlir::gpu::GPUModuleOp>(kernel.getLoc(), "gpu");
  auto mapped = gpu::mapKernel(kernel, target, *gpu::findChip(chip));
  if (failed(mapped))
    return "the mapping fails";
  if (!*mapped)
    return "there is no mapping: " + mapped->reason;
  if (failed(module->verify()))
    return "the mapped function is wrong";
  return emulate(*mapped, buffers, scalars, counters);
}

emulator::Counters
runBlocks(const std::string &text,
          const std::vector<std::pair<void *, int64_t>> &buffers,
          const std::vector<double> &places, unsigned launch,
          const std::string &matmul, unsigned before) {
  OwningOpRef<ModuleOp> module = parseModule(
      "nn.model @m family \"gpt2\" phase \"fuse\" attributes {config = \"{}\", "
      "strategy = #dist.strategy<{target = \"sm_90\", matmul = \"" +
      matmul + "\"}>, weights = {}} {\n" + text + "}\n");
  EXPECT_TRUE(succeeded(gpu::compileKernelsForGpu(*module, "sm_90")));
  auto model = *module->getOps<nn::ModelOp>().begin();
  auto object = *model.getOps<planir::ObjectOp>().begin();
  auto kernel = *model.getOps<planir::KernelOp>().begin();
  std::string error;
  auto image = emulator::Module::load(object.getData().str(), error);
  EXPECT_TRUE(image) << error;
  ZeroMemory scratch(kernel.getScratchBytes().value_or(0));
  std::vector<void *> pointers;
  emulator::GlobalMemory memory;
  auto add = [&](void *address, int64_t bytes) {
    pointers.push_back(address);
    memory.add("buffer", address, bytes);
  };
  for (auto [address, bytes] : buffers)
    add(address, bytes);
  if (scratch.bytes > 0)
    add(scratch.address, scratch.bytes);
  emulator::Options options;
  options.checks = emulator::Checks::Light;
  auto launchOf = [&](unsigned number) {
    auto grid = cast<planir::GridLaunchAttr>((*kernel.getLaunches())[number]);
    emulator::Launch result;
    result.kernel = grid.getSymbol().str();
    result.block = {grid.getBlock()[0], 1, 1};
    result.sharedBytes = grid.getShared();
    result.grid = {grid.getGrid()[0], grid.getGrid()[1], grid.getGrid()[2]};
    for (void *&pointer : pointers)
      result.arguments.push_back(&pointer);
    return result;
  };
  for (unsigned number = 0; number < before; ++number)
    EXPECT_EQ(image->run(launchOf(number), memory, options), "");
  emulator::Launch some = launchOf(launch);
  for (double place : places)
    some.blocks.push_back(
        static_cast<int64_t>(place * (some.grid.count() - 1)));
  options.counts = true;
  emulator::Counters counters;
  EXPECT_EQ(image->run(some, memory, options, &counters), "");
  return counters;
}

emulator::Counters
countBlocks(const std::string &text, const std::vector<int64_t> &bytes,
            const std::vector<double> &places, unsigned launch,
            const std::string &matmul, int64_t filled,
            const std::vector<uint32_t> &words, unsigned before) {
  std::vector<std::unique_ptr<ZeroMemory>> owned;
  std::vector<std::pair<void *, int64_t>> buffers;
  for (int64_t size : bytes) {
    owned.push_back(std::make_unique<ZeroMemory>(size));
    buffers.emplace_back(owned.back()->address, size);
  }
  for (size_t i = 0; filled >= 0 && i < bytes[filled] / sizeof(uint32_t); ++i)
    static_cast<uint32_t *>(owned[filled]->address)[i] =
        words[i % words.size()];
  return runBlocks(text, buffers, places, launch, matmul, before);
}

emulator::Counters countFirstBlock(const std::string &text,
                                   const std::vector<int64_t> &bytes,
                                   unsigned launch, const std::string &matmul) {
  return countBlocks(text, bytes, {0}, launch, matmul);
}

uint64_t sumOf(const emulator::Counters &counters) {
  return std::accumulate(std::begin(counters.instructions),
                         std::end(counters.instructions), uint64_t(0));
}

double relativeError(const Buffer &got, const std::vector<double> &expected) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    difference += std::pow(got.at(i) - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

} // namespace heddle::test
