// RUN: heddle-opt %s -fuse-split-sums | FileCheck %s
// RUN: sed 's/target = "sm_90"/target = "sm_90", gemm = "generated"/' %s | heddle-opt -fuse-split-sums | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/target = "sm_90"/target = "sm_90", fusion = "generic"/' %s | heddle-opt -fuse-split-sums | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/target = "sm_90"/target = "x86-64"/' %s | heddle-opt -fuse-split-sums | FileCheck %s --check-prefix=WHOLE
// RUN: heddle-opt %s -fuse-split-sums -fuse-form-kernels --fuse-verify | FileCheck %s --check-prefix=KERNELS

// Where something stands already, a product of the library sums the gradient of
// its bias by itself. Heddle's own products, and other targets, add at once.
// WHOLE-COUNT-6: init
// WHOLE-NOT: init
nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // Vectors of different lengths are one kernel, in the place of the last.
  // CHECK-LABEL: nn.func @layer
  // KERNELS-LABEL: nn.func @layer
  nn.func @layer(%x: tensor<4x6xbf16>, %g: tensor<4x8xbf16>, %h: tensor<4x3xbf16>, %w: tensor<6x8xf32>, %v: tensor<6x3xf32>, %b: tensor<8xf32>, %c: tensor<3xf32>) -> (tensor<6x8xf32>, tensor<8xf32>, tensor<6x3xf32>, tensor<3xf32>) {
    // CHECK: %[[S:.*]] = nn.sum_rows %[[G:.*]] : (tensor<4x8xbf16>) -> tensor<8xf32>
    // CHECK: nn.sum_rows %[[S]] init %{{.*}} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // KERNELS: %[[A:.*]]:2 = plan.launch @linear_grad_weight_sum_rows(
    // KERNELS-NEXT: %[[B:.*]]:2 = plan.launch @linear_grad_weight_sum_rows_1(
    // KERNELS-NEXT: %[[C:.*]]:2 = plan.launch @sum_rows_sum_rows(
    // KERNELS-NEXT: nn.return %[[A]]#0, %[[C]]#1, %[[B]]#0, %[[C]]#0
    %dw = nn.linear_grad_weight %x, %g init %w : (tensor<4x6xbf16>, tensor<4x8xbf16>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %db = nn.sum_rows %g init %b : (tensor<4x8xbf16>, tensor<8xf32>) -> tensor<8xf32>
    %dv = nn.linear_grad_weight %x, %h init %v : (tensor<4x6xbf16>, tensor<4x3xbf16>, tensor<6x3xf32>) -> tensor<6x3xf32>
    %dc = nn.sum_rows %h init %c : (tensor<4x3xbf16>, tensor<3xf32>) -> tensor<3xf32>
    nn.return %dw, %db, %dv, %dc : tensor<6x8xf32>, tensor<8xf32>, tensor<6x3xf32>, tensor<3xf32>
  }

  // A sum that bf16 holds would be rounded twice; one that no product has is
  // summed at once.
  // CHECK-LABEL: nn.func @whole
  // CHECK-COUNT-2: nn.sum_rows {{.*}} init
  // CHECK-NOT: nn.sum_rows
  nn.func @whole(%x: tensor<4x6xbf16>, %g: tensor<4x8xbf16>, %b: tensor<8xbf16>, %c: tensor<6xf32>) -> (tensor<6x8xf32>, tensor<8xbf16>, tensor<6xf32>) {
    %dw = nn.linear_grad_weight %x, %g : (tensor<4x6xbf16>, tensor<4x8xbf16>) -> tensor<6x8xf32>
    %db = nn.sum_rows %g init %b : (tensor<4x8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
    %dc = nn.sum_rows %x init %c : (tensor<4x6xbf16>, tensor<6xf32>) -> tensor<6xf32>
    nn.return %dw, %db, %dc : tensor<6x8xf32>, tensor<8xbf16>, tensor<6xf32>
  }
}
