//===- Calls.cpp - The functions of the emulated cuBLASLt -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exports the functions of cuBLASLt that the runtime calls. A product becomes a
// command of the emulated driver's stream.
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/cuda/Calls.h"
#include "heddle/emulator/cublaslt/Library.h"
#include "heddle/emulator/cuda/Submit.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace heddle::rt;
using namespace heddle::rt::cublaslt;

// The exported functions.
namespace heddle::rt::cublaslt {
extern "C" {
#define HEDDLE_DECLARE(RETURN, NAME, SYMBOL, PARAMETERS)                       \
  __attribute__((visibility("default"))) RETURN SYMBOL PARAMETERS;
HEDDLE_CUBLASLT_CALLS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE
}

/// The data of a cublasLtHandle_t.
struct HandleData {
  int64_t products = 0; ///< Number of products that were submitted.
};
} // namespace heddle::rt::cublaslt

static void complain(const std::string &message) {
  std::fprintf(stderr, "heddle emulate: cuBLASLt: %s\n", message.c_str());
}

/// The number that follows `name:` in the variable HEDDLE_EMULATE_FAULT, with
/// which tests make calls of the library fail. -1 if the variable does not
/// begin with `name:`.
static int64_t faultNumber(const char *name) {
  const char *fault = std::getenv("HEDDLE_EMULATE_FAULT");
  size_t length = std::strlen(name);
  if (!fault || std::strncmp(fault, name, length) != 0 || fault[length] != ':')
    return -1;
  return std::atoll(fault + length + 1);
}

//===----------------------------------------------------------------------===//
// The library and its descriptors
//===----------------------------------------------------------------------===//

size_t cublaslt::cublasLtGetVersion() { return 130000; }

Status cublaslt::cublasLtCreate(Handle *handle) {
  cuda::Context context = nullptr;
  if (cuda::cuCtxGetCurrent(&context) != cuda::Success || !context)
    return NotInitialized;
  *handle = new HandleData();
  return Success;
}

Status cublaslt::cublasLtDestroy(Handle handle) {
  delete handle;
  return Success;
}

Status cublaslt::cublasLtMatmulDescCreate(Desc *desc, ComputeType compute,
                                          DataType scale) {
  *desc = new DescData{compute, scale};
  return Success;
}

Status cublaslt::cublasLtMatmulDescDestroy(Desc desc) {
  delete desc;
  return Success;
}

/// Reads the value of an attribute into `target`. Fails if `bytes`, the size
/// that the caller gives, is not the size of the attribute.
template <typename T>
static Status take(T &target, const void *value, size_t bytes) {
  if (bytes != sizeof(T))
    return InvalidValue;
  std::memcpy(&target, value, bytes);
  return Success;
}

Status cublaslt::cublasLtMatmulDescSetAttribute(Desc desc,
                                                DescAttribute attribute,
                                                const void *value,
                                                size_t bytes) {
  switch (attribute) {
  case TransA:
    return take(desc->transA, value, bytes);
  case TransB:
    return take(desc->transB, value, bytes);
  case EpilogueAttribute:
    return take(desc->epilogue, value, bytes);
  case BiasPointer:
    return take(desc->bias, value, bytes);
  case AuxPointer:
    return take(desc->aux, value, bytes);
  case AuxLeading:
    return take(desc->auxLeading, value, bytes);
  }
  complain("no operation has attribute " + std::to_string(attribute));
  return InvalidValue;
}

Status cublaslt::cublasLtMatrixLayoutCreate(Layout *layout, DataType type,
                                            uint64_t rows, uint64_t columns,
                                            int64_t leading) {
  if (type != F32 && type != BF16 && type != F16)
    return InvalidValue;
  *layout = new LayoutData{type, rows, columns, leading};
  return Success;
}

Status cublaslt::cublasLtMatrixLayoutDestroy(Layout layout) {
  delete layout;
  return Success;
}

Status cublaslt::cublasLtMatmulPreferenceCreate(Preference *preference) {
  *preference = new PreferenceData();
  return Success;
}

Status cublaslt::cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete preference;
  return Success;
}

Status cublaslt::cublasLtMatmulPreferenceSetAttribute(
    Preference preference, PreferenceAttribute attribute, const void *value,
    size_t bytes) {
  switch (attribute) {
  case MaxWorkspaceBytes:
    return take(preference->workspaceBytes, value, bytes);
  case ReductionSchemeMask:
    return take(preference->reductions, value, bytes);
  case AlignmentA:
  case AlignmentB:
  case AlignmentC:
  case AlignmentD:
    return take(preference->alignments[attribute - AlignmentA], value, bytes);
  }
  complain("no preference has attribute " + std::to_string(attribute));
  return InvalidValue;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Returns the bytes of workspace for an algorithm that splits k into parts and
/// adds the partial sums. Returns 0 if k is too short to be split, or if the
/// algorithm would need more than `most` bytes.
static uint64_t workspaceOf(const Product &product, uint64_t most) {
  uint64_t k = product.desc.transA == AsIs ? product.a.columns : product.a.rows;
  uint64_t parts = 2 * 4 * product.d.rows * product.d.columns;
  return k >= 256 && parts <= most ? parts : 0;
}

Status cublaslt::cublasLtMatmulAlgoGetHeuristic(
    Handle handle, Desc desc, Layout a, Layout b, Layout c, Layout d,
    Preference preference, int wanted, HeuristicResult *results, int *found) {
  *found = 0;
  if (!handle || wanted < 1)
    return InvalidValue;
  Product product{*desc, *a, *b, *c, *d};
  std::string why;
  Status status = check(product, why);
  if (status == Success && faultNumber("lt-refuse") == desc->epilogue)
    status = NotSupported;
  if (status != Success)
    return status;
  AlgorithmData choice = {
      algorithmMark, workspaceOf(product, preference->workspaceBytes), {}};
  std::memcpy(choice.alignments, preference->alignments,
              sizeof choice.alignments);
  results[0] = {};
  static_assert(sizeof choice <= sizeof results[0].algorithm);
  std::memcpy(&results[0].algorithm, &choice, sizeof choice);
  results[0].workspaceBytes = choice.workspaceBytes;
  results[0].state = Success;
  *found = 1;
  return Success;
}

Status cublaslt::cublasLtMatmulAlgoCheck(Handle handle, Desc desc, Layout a,
                                         Layout b, Layout c, Layout d,
                                         const Algorithm *algorithm,
                                         HeuristicResult *result) {
  if (!handle || !algorithm)
    return InvalidValue;
  Product product{*desc, *a, *b, *c, *d};
  AlgorithmData choice;
  std::memcpy(&choice, algorithm, sizeof choice);
  std::string why;
  Status status = check(product, why);
  if (status == Success && (choice.mark != algorithmMark ||
                            faultNumber("lt-refuse") == desc->epilogue))
    status = NotSupported;
  *result = {};
  result->state = status;
  result->workspaceBytes = status == Success ? choice.workspaceBytes : 0;
  return status;
}

namespace {
/// A matrix product that was submitted to a stream and has not run yet.
struct QueuedProduct {
  Product product;
  float alpha, beta;
  /// The buffers that the product reads and writes. `add` appends a buffer.
  std::vector<cuda::EmulatedAccess> accesses;
  /// Indices into `accesses` of the buffers of the product. -1 if the product
  /// has no such buffer.
  int c = -1, bias = -1, aux = -1, workspace = -1;

  int add(const void *address, size_t bytes, bool writes) {
    accesses.push_back(
        {reinterpret_cast<cuda::DevicePointer>(address), bytes, writes, {}});
    return int(accesses.size()) - 1;
  }
  char *bufferOf(int number) const {
    return number < 0 ? nullptr : accesses[number].data;
  }
};
} // namespace

static void run(void *data) {
  const QueuedProduct &queued = *static_cast<QueuedProduct *>(data);
  // Overwrite the workspace with 0xff, because its contents are undefined after
  // a product.
  if (queued.workspace >= 0)
    std::memset(queued.bufferOf(queued.workspace), 0xff,
                queued.accesses[queued.workspace].bytes);
  multiply(queued.product,
           {queued.bufferOf(0), queued.bufferOf(1), queued.bufferOf(queued.c),
            queued.bufferOf(queued.bias), queued.bufferOf(2),
            queued.bufferOf(queued.aux)},
           queued.alpha, queued.beta);
}

/// Checks the algorithm, the alignment of the operands, and the workspace.
/// Returns an error message, or null if all are accepted.
static const char *findWrongAddress(const AlgorithmData &choice, const void *a,
                                    const void *b, const void *c, const void *d,
                                    const void *workspace,
                                    size_t workspaceBytes) {
  if (choice.mark != algorithmMark)
    return "the algorithm is none of this library's";
  const void *all[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (!all[i] || reinterpret_cast<uintptr_t>(all[i]) % choice.alignments[i])
      return "an operand is not aligned as its algorithm was asked for";
  if (workspaceBytes < choice.workspaceBytes)
    return "the workspace is smaller than the algorithm's";
  if (workspaceBytes > 0 && reinterpret_cast<uintptr_t>(workspace) % 16)
    return "the workspace is not at a multiple of 16";
  return nullptr;
}

Status cublaslt::cublasLtMatmul(Handle handle, Desc desc, const void *alpha,
                                const void *a, Layout aLayout, const void *b,
                                Layout bLayout, const void *beta, const void *c,
                                Layout cLayout, void *d, Layout dLayout,
                                const Algorithm *algorithm, void *workspace,
                                size_t workspaceBytes,
                                cuda::StreamHandle stream) {
  if (!handle || !algorithm)
    return InvalidValue;
  if (faultNumber("lt-error") == handle->products++)
    return ExecutionFailed;
  auto queued = std::make_unique<QueuedProduct>();
  queued->product = {*desc, *aLayout, *bLayout, *cLayout, *dLayout};
  const Product &product = queued->product;
  AlgorithmData choice;
  std::memcpy(&choice, algorithm, sizeof choice);
  std::string why;
  Status status = check(product, why);
  if (const char *wrong =
          findWrongAddress(choice, a, b, c, d, workspace, workspaceBytes)) {
    why = wrong;
    status = InvalidValue;
  }
  std::memcpy(&queued->alpha, alpha, sizeof(float));
  std::memcpy(&queued->beta, beta, sizeof(float));
  queued->add(a, product.a.bytes(), false);
  queued->add(b, product.b.bytes(), false);
  queued->add(d, product.d.bytes(), true);
  if (queued->beta != 0)
    queued->c = queued->add(c, product.c.bytes(), false);
  if (desc->hasBias())
    queued->bias = queued->add(
        reinterpret_cast<const void *>(desc->bias),
        product.biasElements() * product.d.elementBytes(), desc->writesSums());
  if (desc->hasAux()) {
    LayoutData aux = product.d;
    aux.leading = desc->auxLeading;
    queued->aux = queued->add(reinterpret_cast<const void *>(desc->aux),
                              aux.bytes(), desc->writesAux());
  }
  if (choice.workspaceBytes > 0)
    queued->workspace = queued->add(workspace, choice.workspaceBytes, true);
  if (status != Success) {
    complain(why);
    return status;
  }
  std::string name = "product " + std::to_string(handle->products - 1) +
                     " of cuBLASLt, " + std::to_string(product.d.rows) +
                     " by " + std::to_string(product.d.columns);
  cuda::EmulatedWork work = {};
  work.name = name.c_str();
  work.accesses = queued->accesses.data();
  work.numAccesses = queued->accesses.size();
  work.run = run;
  work.drop = [](void *data) { delete static_cast<QueuedProduct *>(data); };
  work.data = queued.release();
  cuda::Result result = cuda::heddleEmulateSubmit(stream, &work);
  if (result == cuda::InvalidValue)
    complain(name + ": an operand is not memory of the GPU");
  return result == cuda::Success ? Success : ExecutionFailed;
}
