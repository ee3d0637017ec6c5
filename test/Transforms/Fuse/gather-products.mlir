// RUN: heddle-opt %s --fuse-gather-products | FileCheck %s
// RUN: sed 's/strategy<{}>/strategy<{fusion = generic}>/' %s | heddle-opt --fuse-gather-products | FileCheck %s --check-prefix=APART
// RUN: sed 's/strategy<{}>/strategy<{target = sm_80}>/' %s | heddle-opt --fuse-gather-products | FileCheck %s

// Products of the same rows with packed weights follow each other.

nn.model @m family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @gate
  // APART-LABEL: nn.func @gate
  nn.func @gate(%x: tensor<3x16xf32>, %y: tensor<3x16xf32>, %g: tensor<2x16x32x1xf32>, %u: tensor<2x16x32x1xf32>) -> (tensor<3x64xf32>, tensor<3x64xf32>) {
    // CHECK-NEXT: %[[G:.*]] = nn.packed_linear %arg0, %arg2
    // CHECK-NEXT: %[[U:.*]] = nn.packed_linear %arg0, %arg3
    // CHECK-NEXT: nn.map silu(%[[G]])
    // CHECK-NEXT: nn.packed_linear %arg1, %arg3
    // CHECK-NEXT: nn.mul %{{.*}}, %[[U]]
    // APART-NEXT: nn.packed_linear %arg0, %arg2
    // APART-NEXT: nn.map silu
    // APART-NEXT: nn.packed_linear %arg1
    // APART-NEXT: nn.packed_linear %arg0, %arg3
    %0 = nn.packed_linear %x, %g : (tensor<3x16xf32>, tensor<2x16x32x1xf32>) -> tensor<3x64xf32>
    %1 = nn.map silu(%0) : tensor<3x64xf32>
    %2 = nn.packed_linear %y, %u : (tensor<3x16xf32>, tensor<2x16x32x1xf32>) -> tensor<3x64xf32>
    %3 = nn.packed_linear %x, %u : (tensor<3x16xf32>, tensor<2x16x32x1xf32>) -> tensor<3x64xf32>
    %4 = nn.mul %1, %3 : tensor<3x64xf32>
    nn.return %4, %2 : tensor<3x64xf32>, tensor<3x64xf32>
  }

  // The second waits for its bias, and the third goes with it.
  // CHECK-LABEL: nn.func @waits
  nn.func @waits(%x: tensor<3x16xf32>, %w: tensor<1x16x32x1xf32>) -> (tensor<3x16xf32>, tensor<3x16xf32>, tensor<3x16xf32>) {
    // CHECK-NEXT: %[[A:.*]] = nn.packed_linear %arg0, %arg1
    // CHECK-NEXT: %[[B:.*]] = nn.sum_rows %[[A]]
    // CHECK-NEXT: nn.packed_linear %arg0, %arg1 bias %[[B]]
    // CHECK-NEXT: nn.packed_linear %arg0, %arg1 :
    // CHECK-NEXT: nn.map silu(%[[A]])
    %0 = nn.packed_linear %x, %w : (tensor<3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x16xf32>
    %1 = nn.sum_rows %0 : (tensor<3x16xf32>) -> tensor<16xf32>
    %2 = nn.packed_linear %x, %w bias %1 : (tensor<3x16xf32>, tensor<1x16x32x1xf32>, tensor<16xf32>) -> tensor<3x16xf32>
    %3 = nn.map silu(%0) : tensor<3x16xf32>
    %4 = nn.packed_linear %x, %w : (tensor<3x16xf32>, tensor<1x16x32x1xf32>) -> tensor<3x16xf32>
    nn.return %2, %3, %4 : tensor<3x16xf32>, tensor<3x16xf32>, tensor<3x16xf32>
  }
}
