// RUN: heddle-opt %s -cpu-compile-kernels -kernels-verify | FileCheck %s
// RUN: sed "s/march = .native./march = \"x86-64-v3\"/" %s | heddle-opt -cpu-compile-kernels -kernels-verify | FileCheck %s
// The cache gives what the compiler gave, and damaged files do no harm.
// RUN: rm -rf %t && heddle-opt %s -cpu-compile-kernels -o %t.mlir
// RUN: heddle-opt %s -cpu-compile-kernels=cache=%t -o %t.cold && diff %t.mlir %t.cold
// RUN: ls %t | FileCheck %s --check-prefix=FILES
// RUN: heddle-opt %s -cpu-compile-kernels=cache=%t -o %t.warm && diff %t.mlir %t.warm
// RUN: for f in %t/*; do echo damaged > $f; done
// RUN: heddle-opt %s -cpu-compile-kernels=cache=%t -o %t.damaged && diff %t.mlir %t.damaged

// FILES:     {{^[0-9a-f]+-.*}}.o
// FILES:     {{^[0-9a-f]+-.*}}.o
// FILES:     {{^[0-9a-f]+-.*}}.o
// FILES-NOT: .o

// Launches of equal kernels go to one of them.
// CHECK: plan.launch @relu(
// CHECK: plan.launch @relu(
// CHECK: plan.launch @norm(

// CHECK:      plan.kernel @relu(
// CHECK-SAME:   hash = "[[HASH:[0-9a-f]+]]"
// CHECK-SAME:   object = @relu.o
// CHECK-SAME:   scratch_bytes = 0 : i64
// CHECK-SAME:   symbol = "k_relu_{{[0-9a-f]+}}"
// CHECK:      plan.object @relu.o "f0VMRgIBAQ
// CHECK-NOT:  plan.kernel @relu_1
// CHECK:      plan.kernel @norm(
// CHECK:      plan.object @norm.o

nn.model @m family "gpt2" phase "fuse" attributes {
    config = "{}", strategy = #dist.strategy<{march = "native"}>, weights = {}} {
  nn.func @f(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
    %a = plan.launch @relu(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %b = plan.launch @relu_1(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %c = plan.launch @norm(%b, %w) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    nn.return %c : tensor<4x8xf32>
  }
  plan.kernel @relu(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y = nn.map relu(%x) : tensor<4x8xf32>
    plan.yield %y : tensor<4x8xf32>
  }
  plan.kernel @relu_1(%other: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y = nn.map relu(%other) : tensor<4x8xf32>
    plan.yield %y : tensor<4x8xf32>
  }
  plan.kernel @norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y, %r = nn.rms_norm %x, %w {eps = 1.0e-5}
        : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    plan.yield %y : tensor<4x8xf32>
  }
  // A number of bf16 that several blocks use: its object calls nothing.
  plan.kernel @scale(%x: tensor<57x30xbf16>, %s: tensor<bf16>) -> tensor<57x30xbf16>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %y = nn.map (%number = %x, %factor = %s)
        : (tensor<57x30xbf16>, tensor<bf16>) -> tensor<57x30xbf16> {
      %product = arith.mulf %number, %factor : f64
      nn.return %product : f64
    }
    plan.yield %y : tensor<57x30xbf16>
  }
}
