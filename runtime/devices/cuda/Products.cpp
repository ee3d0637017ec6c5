//===- Products.cpp - One matrix product by cuBLASLt ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls cuBLASLt, which stores matrices by columns. Plans store matrices by
// rows. The bytes of a matrix by rows are those of its transpose by columns.
// The library therefore computes the transposed product, and its left factor is
// the plan's right factor.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/devices/cuda/Products.h"
#include "heddle/runtime/devices/cuda/Driver.h"
#include "heddle/runtime/devices/cuda/Libraries.h"

#include <dlfcn.h>

using namespace heddle;
using namespace heddle::rt::cuda;
namespace lt = heddle::rt::cublaslt;

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

/// Loads the functions of cuBLASLt. Returns false, with a reason, if the
/// library is missing or lacks one of them.
static bool load(lt::Functions &calls, std::string &reason) {
  void *library = nullptr;
  for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    // The library is never unloaded, since its state in this process could not
    // be restored.
    library = library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library && reason.empty())
      if (const char *error = dlerror())
        reason = error;
  }
  if (!library)
    return false;
#define HEDDLE_FIND(RETURN, NAME, SYMBOL, PARAMETERS)                          \
  calls.NAME =                                                                 \
      reinterpret_cast<decltype(calls.NAME)>(dlsym(library, #SYMBOL));         \
  if (!calls.NAME) {                                                           \
    reason = "the library has no " #SYMBOL;                                    \
    return false;                                                              \
  }
  HEDDLE_CUBLASLT_CALLS(HEDDLE_FIND)
#undef HEDDLE_FIND
  return true;
}

std::unique_ptr<ProductLibrary> ProductLibrary::open(std::string &reason) {
  lt::Functions calls;
  if (!load(calls, reason))
    return nullptr;
  lt::Handle handle = nullptr;
  if (lt::Status status = calls.create(&handle); status != lt::Success) {
    reason = "cublasLtCreate returns " + std::to_string(status);
    return nullptr;
  }
  return std::unique_ptr<ProductLibrary>(new ProductLibrary(calls, handle));
}

ProductLibrary::~ProductLibrary() { calls.destroy(handle); }

/// Formats a version number of the library, for example 130100 as "13.1.0".
static std::string versionText(size_t number) {
  return std::to_string(number / 10000) + "." +
         std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

std::string ProductLibrary::version() const {
  return versionText(calls.version());
}

rt::FoundLibrary heddle::rt::findCublasLt() {
  lt::Functions calls;
  std::string reason;
  if (!load(calls, reason))
    return {"", "", reason};
  auto *place = reinterpret_cast<void *>(calls.version);
  return {versionText(calls.version()), pathOfLibrary(place), ""};
}

//===----------------------------------------------------------------------===//
// A product
//===----------------------------------------------------------------------===//

static lt::DataType typeOf(plan::DType type) {
  return type == plan::DType::BF16  ? lt::BF16
         : type == plan::DType::F16 ? lt::F16
                                    : lt::F32;
}

/// Returns the epilogue of the library's call. The library's factor a is the
/// plan's b and the reverse, since the product is transposed.
static lt::Epilogue epilogueOf(const plan::LibraryProduct &what) {
  if (what.sumB >= 0)
    return lt::SumsA;
  if (what.sumA >= 0)
    return lt::SumsB;
  bool hasBias = what.bias >= 0;
  switch (what.end) {
  case plan::ProductEnd::Plain:
    return hasBias ? lt::Bias : lt::Default;
  case plan::ProductEnd::GeluTanh:
    if (what.aux >= 0)
      return hasBias ? lt::GeluAuxBias : lt::GeluAux;
    return hasBias ? lt::GeluBias : lt::Gelu;
  case plan::ProductEnd::GeluTanhGrad:
    break;
  }
  return lt::GeluGrad;
}

/// Returns the index, among the kernel's addresses, of the library's bias
/// pointer: a bias to add, or the gradient of a bias to write. Returns -1 if
/// there is neither.
static int64_t biasOf(const plan::LibraryProduct &what) {
  return std::max({what.bias, what.sumA, what.sumB});
}

template <typename Attribute, typename Target, typename Value>
static bool set(lt::Status (*call)(Target, Attribute, const void *, size_t),
                Target target, Attribute attribute, const Value &value) {
  return call(target, attribute, &value, sizeof value) == lt::Success;
}

/// Creates the library's descriptors of the product and of its matrices.
bool ProductCall::describe() {
  lt::ComputeType compute = what.tf32 ? lt::Compute32FFastTf32 : lt::Compute32F;
  if (calls.makeDesc(&desc, compute, lt::F32) != lt::Success)
    return false;
  lt::Operation ofLeft = what.transB ? lt::Transposed : lt::AsIs;
  lt::Operation ofRight = what.transA ? lt::Transposed : lt::AsIs;
  if (!set(calls.setDesc, desc, lt::TransA, ofLeft) ||
      !set(calls.setDesc, desc, lt::TransB, ofRight) ||
      !set(calls.setDesc, desc, lt::EpilogueAttribute, epilogueOf(what)))
    return false;
  // Each call sets the real addresses. Until then this address tells the
  // library which alignment they will have.
  void *aligned = reinterpret_cast<void *>(alignment);
  if (biasOf(what) >= 0 && !set(calls.setDesc, desc, lt::BiasPointer, aligned))
    return false;
  if (what.aux >= 0 && (!set(calls.setDesc, desc, lt::AuxPointer, aligned) ||
                        !set(calls.setDesc, desc, lt::AuxLeading,
                             what.ldaux > 0 ? what.ldaux : what.n)))
    return false;
  auto make = [&](lt::Layout &layout, plan::DType type, int64_t rows,
                  int64_t columns, int64_t leading) {
    return calls.makeLayout(&layout, typeOf(type), uint64_t(rows),
                            uint64_t(columns),
                            leading > 0 ? leading : rows) == lt::Success;
  };
  return (what.transB ? make(left, what.type, what.k, what.n, what.ldb)
                      : make(left, what.type, what.n, what.k, what.ldb)) &&
         (what.transA ? make(right, what.type, what.m, what.k, what.lda)
                      : make(right, what.type, what.k, what.m, what.lda)) &&
         make(addend, what.result, what.n, what.m,
              what.c >= 0 ? what.ldc : what.ldd) &&
         make(sums, what.result, what.n, what.m, what.ldd);
}

/// Uses the algorithm that is kept for this product, if there is one that the
/// library accepts. Returns false otherwise.
bool ProductCall::recall(const Algorithms &known) {
  std::optional<lt::Algorithm> before = known.find(what);
  if (!before ||
      calls.checkAlgorithm(library.handle, desc, left, right, addend, sums,
                           &*before, &chosen) != lt::Success ||
      chosen.state != lt::Success ||
      chosen.workspaceBytes > size_t(what.workspaceBytes))
    return false;
  chosen.algorithm = *before;
  return true;
}

/// Asks the library for its best algorithm. With split-K, only algorithms are
/// allowed that add partial sums in the workspace, in a fixed order, so that
/// two runs give the same bits.
bool ProductCall::choose() {
  lt::Preference preference = nullptr;
  if (calls.makePreference(&preference) != lt::Success)
    return false;
  bool isSet = set(calls.setPreference, preference, lt::MaxWorkspaceBytes,
                   uint64_t(what.workspaceBytes)) &&
               set(calls.setPreference, preference, lt::ReductionSchemeMask,
                   uint32_t(lt::ReduceInComputeType));
  for (lt::PreferenceAttribute operand :
       {lt::AlignmentA, lt::AlignmentB, lt::AlignmentC, lt::AlignmentD})
    isSet &= set(calls.setPreference, preference, operand, uint32_t(alignment));
  int found = 0;
  bool isFound =
      isSet &&
      calls.askHeuristic(library.handle, desc, left, right, addend, sums,
                         preference, 1, &chosen, &found) == lt::Success &&
      found == 1 && chosen.state == lt::Success;
  calls.destroyPreference(preference);
  return isFound;
}

std::unique_ptr<ProductCall>
ProductCall::prepare(const ProductLibrary &library,
                     const plan::LibraryProduct &what, Algorithms &known) {
  std::unique_ptr<ProductCall> call(new ProductCall(library, what));
  if (!call->describe())
    return nullptr;
  if (call->recall(known))
    return call;
  if (!call->choose())
    return nullptr;
  known.set(what, call->chosen.algorithm);
  return call;
}

ProductCall::~ProductCall() {
  for (lt::Layout layout : {left, right, addend, sums})
    if (layout)
      calls.destroyLayout(layout);
  if (desc)
    calls.destroyDesc(desc);
}

lt::Status ProductCall::submit(StreamHandle stream, void *const *refs,
                               void *workspace) const {
  int64_t bias = biasOf(what);
  if ((bias >= 0 && !set(calls.setDesc, desc, lt::BiasPointer, refs[bias])) ||
      (what.aux >= 0 &&
       !set(calls.setDesc, desc, lt::AuxPointer, refs[what.aux])))
    return lt::InvalidValue;
  float one = 1, beta = what.c >= 0 ? 1 : 0;
  const void *c = refs[what.c >= 0 ? what.c : what.d];
  return calls.multiply(library.handle, desc, &one, refs[what.b], left,
                        refs[what.a], right, &beta, c, addend, refs[what.d],
                        sums, &chosen.algorithm, workspace,
                        chosen.workspaceBytes, stream);
}
