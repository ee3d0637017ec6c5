//===- LibraryProductTest.cpp - Calls of cuBLASLt that are changed --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a dump says of a library's product is changed in each field, as an
// editor would. The dump is refused: by the attribute, which names what cannot
// be, or by the target, which reads the kernel's body again.
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "heddle/Codegen/GPU/GpuBackEnd.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::test;

namespace {

/// The product of 5 rows; each has other fields.
const char *const kernels[] = {
    // A bias, and a residual in whose place the result comes.
    R"(plan.kernel @k(%x: tensor<5x3xbf16>, %w: tensor<7x3xbf16>, %b: tensor<7xbf16>, %r: tensor<5x7xbf16>) -> tensor<5x7xbf16>
           attributes {generator = #plan.generator<gemm>, ties = array<i64: 3>, leading_dimensions = array<i64: 0, 0, 0, 8>} {
         %y = nn.linear %x, %w bias %b {transposed} : (tensor<5x3xbf16>, tensor<7x3xbf16>, tensor<7xbf16>) -> tensor<5x7xbf16>
         %z = nn.add %r, %y : tensor<5x7xbf16>
         plan.yield %z : tensor<5x7xbf16>
       })",
    // The transposed right factor of an input's gradient, in fp16.
    R"(plan.kernel @k(%x: tensor<5x3xf16>, %w: tensor<7x3xf16>) -> tensor<5x7xf16>
           attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>, leading_dimensions = array<i64: 0, 4, 8>} {
         %y = nn.linear %x, %w {transposed} : (tensor<5x3xf16>, tensor<7x3xf16>) -> tensor<5x7xf16>
         plan.yield %y : tensor<5x7xf16>
       })",
    // GELU and its operand, with gaps between rows.
    R"(plan.kernel @k(%x: tensor<5x3xf32>, %w: tensor<3x7xf32>, %b: tensor<7xf32>) -> (tensor<5x7xf32>, tensor<5x7xf32>)
           attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>, leading_dimensions = array<i64: 4, 8, 0, 8, 8>} {
         %y = nn.linear %x, %w bias %b : (tensor<5x3xf32>, tensor<3x7xf32>, tensor<7xf32>) -> tensor<5x7xf32>
         %z = nn.map gelu_tanh(%y) : tensor<5x7xf32>
         plan.yield %y, %z : tensor<5x7xf32>, tensor<5x7xf32>
       })",
    R"(plan.kernel @k(%g: tensor<5x3xf32>, %w: tensor<3x8xf32>, %x: tensor<5x8xf32>) -> tensor<5x8xf32>
           attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
         %y = nn.linear %g, %w : (tensor<5x3xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
         %z = nn.map gelu_tanh_grad(%y, %x) : tensor<5x8xf32>
         plan.yield %z : tensor<5x8xf32>
       })",
    // Onto what stands there, and the sums of a factor.
    R"(plan.kernel @k(%x: tensor<5x3xbf16>, %g: tensor<5x7xbf16>, %i: tensor<3x7xf32>) -> (tensor<3x7xf32>, tensor<7xf32>)
           attributes {generator = #plan.generator<gemm>, ties = array<i64: 2, -1>} {
         %y = nn.linear_grad_weight %x, %g init %i : (tensor<5x3xbf16>, tensor<5x7xbf16>, tensor<3x7xf32>) -> tensor<3x7xf32>
         %s = nn.sum_rows %g : (tensor<5x7xbf16>) -> tensor<7xf32>
         plan.yield %y, %s : tensor<3x7xf32>, tensor<7xf32>
       })",
    R"(plan.kernel @k(%x: tensor<5x3xf32>, %g: tensor<5x7xf32>) -> (tensor<7x3xf32>, tensor<7xf32>)
           attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
         %y = nn.linear_grad_weight %x, %g {transposed} : (tensor<5x3xf32>, tensor<5x7xf32>) -> tensor<7x3xf32>
         %s = nn.sum_rows %g : (tensor<5x7xf32>) -> tensor<7xf32>
         plan.yield %y, %s : tensor<7x3xf32>, tensor<7xf32>
       })"};

/// What a field is where the text does not say it; "" where it always does.
const std::map<std::string, std::string> fields = {{"m", ""},
                                                   {"n", ""},
                                                   {"k", ""},
                                                   {"trans_a", "false"},
                                                   {"trans_b", "false"},
                                                   {"type", ""},
                                                   {"result", ""},
                                                   {"a", ""},
                                                   {"b", ""},
                                                   {"c", "-1"},
                                                   {"bias", "-1"},
                                                   {"d", ""},
                                                   {"aux", "-1"},
                                                   {"sum_a", "-1"},
                                                   {"sum_b", "-1"},
                                                   {"lda", "0"},
                                                   {"ldb", "0"},
                                                   {"ldc", "0"},
                                                   {"ldd", "0"},
                                                   {"ldaux", "0"},
                                                   {"end", "plain"},
                                                   {"tf32", "false"},
                                                   {"workspace", ""}};

/// Other values that an editor may put in the place of one.
std::vector<std::string> othersOf(const std::string &field,
                                  const std::string &value) {
  if (value == "true" || value == "false")
    return {value == "true" ? "false" : "true"};
  auto allBut = [&](std::vector<std::string> values) {
    llvm::erase(values, value);
    return values;
  };
  if (field == "type" || field == "result")
    return allBut({"f32", "bf16", "f16"});
  if (field == "end")
    return allBut({"plain", "gelu_tanh", "gelu_tanh_grad"});
  int64_t number = std::stoll(value);
  if (llvm::StringRef(field).starts_with("ld"))
    return allBut({"0", "4", "8", std::to_string(number + 16)});
  return allBut({"-1", "0", std::to_string(number + 1),
                 std::to_string(number - 1), std::to_string(2 * number)});
}

constexpr llvm::StringRef begin = "#plan.library_product<";

/// The fields of the only product of a text, as they are written.
std::vector<std::pair<std::string, std::string>>
fieldsOf(llvm::StringRef text) {
  llvm::StringRef body = text.split(begin).second.split('>').first;
  std::vector<std::pair<std::string, std::string>> result;
  llvm::SmallVector<llvm::StringRef> parts;
  body.split(parts, ", ");
  for (llvm::StringRef part : parts) {
    auto [name, value] = part.split(" = ");
    result.emplace_back(name, value);
  }
  return result;
}

/// What is said of a text; "" where it is taken.
std::string refusal(const std::string &text) {
  std::string messages;
  mlir::ScopedDiagnosticHandler handler(&gpuContext(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          messages += diagnostic.str() + "\n";
                                          return mlir::success();
                                        });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &gpuContext());
  if (!module)
    return messages;
  auto target = gpu::createBackEnd(config::Target::SM_90);
  return succeeded(target->verify({*module})) ? "" : messages;
}

TEST(GpuLibraryProduct, EachFieldIsThatOfTheBody) {
  const auto isRefusedByName = testing::AnyOf(
      testing::Eq("H0397: its library product is not that of its body\n"),
      testing::StartsWith("a product has sizes of 1 or more"),
      testing::StartsWith("a library's product is of f32, bf16 or f16, not of"),
      testing::ContainsRegex("rows of [0-9]+ elements cannot begin [0-9]+ "
                             "apart"),
      testing::StartsWith("a product has the addresses a, b and d"),
      testing::StartsWith("an address is a number from 0 on, or -1"),
      testing::StartsWith("a library sums a or b, and then adds no bias"),
      testing::StartsWith("what is added does not fit to"));
  std::set<std::string> written;
  int mutants = 0;
  for (const char *kernel : kernels) {
    auto module = parseModule(kernel);
    ASSERT_TRUE(module);
    ASSERT_TRUE(succeeded(gpu::compileKernelsForGpu(*module, "sm_90")));
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    ASSERT_EQ(refusal(text), "");
    size_t first = text.find(begin) + begin.size();
    size_t size = text.find('>', first) - first;
    auto present = fieldsOf(text);
    for (const auto &[field, absent] : fields) {
      auto at = llvm::find_if(present, [&, &name = field](auto &each) {
        return each.first == name;
      });
      bool isWritten = at != present.end();
      if (isWritten)
        written.insert(field);
      for (const std::string &other :
           othersOf(field, isWritten ? at->second : absent)) {
        auto changed = present;
        if (isWritten)
          changed[at - present.begin()].second = other;
        else
          changed.emplace_back(field, other);
        std::string list = llvm::join(
            llvm::map_range(
                changed,
                [](auto &each) { return each.first + " = " + each.second; }),
            ", ");
        std::string mutant = text;
        mutant.replace(first, size, list);
        EXPECT_THAT(refusal(mutant), isRefusedByName) << list;
        ++mutants;
      }
    }
    // Without any.
    std::string without = text;
    size_t whole = text.find("library = ");
    without.erase(whole, text.find('>', whole) + 3 - whole);
    EXPECT_EQ(refusal(without),
              "H0397: its library product is not that of its body\n");
  }
  std::printf("%d mutants\n", mutants);
  EXPECT_GE(mutants, 250);
  for (const auto &[field, absent] : fields)
    if (field != "tf32") // It takes a strategy.
      EXPECT_TRUE(written.count(field)) << field;
}

} // namespace
