// RUN: heddle-opt %s --split-input-file --fuse-form-kernels --fuse-verify | FileCheck %s
// RUN: heddle-opt %s --split-input-file --fuse-form-kernels=remarks=true 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY --implicit-check-not=remark:

// Kernels of products on GPUs compute the norm of a few rows.

nn.model @m family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @gates
  nn.func @gates(%x: tensor<3x1x32xbf16>, %g: tensor<32xbf16>, %w: tensor<1x2x128x2xbf16>, %v: tensor<1x2x128x2xbf16>) -> tensor<3x1x16xbf16> {
    // CHECK-NEXT: plan.launch @rms_norm_packed_linear_silu_packed_linear_mul(%arg0
    // CHECK-NEXT: nn.return
    %h, %r = nn.rms_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<3x1x32xbf16>, tensor<32xbf16>) -> (tensor<3x1x32xbf16>, tensor<3x1xf32>)
    %0 = nn.packed_linear %h, %w layout fragments : (tensor<3x1x32xbf16>, tensor<1x2x128x2xbf16>) -> tensor<3x1x16xbf16>
    %1 = nn.map silu(%0) : tensor<3x1x16xbf16>
    %2 = nn.packed_linear %h, %v layout fragments : (tensor<3x1x32xbf16>, tensor<1x2x128x2xbf16>) -> tensor<3x1x16xbf16>
    %3 = nn.mul %1, %2 : tensor<3x1x16xbf16>
    nn.return %3 : tensor<3x1x16xbf16>
  }

  // A norm of what another product computes.
  // CHECK-LABEL: nn.func @chain
  nn.func @chain(%y: tensor<2x32xbf16>, %z: tensor<2x32xbf16>, %g: tensor<32xbf16>, %w: tensor<2x2x128x2xbf16>) -> (tensor<2x32xbf16>, tensor<2x32xbf16>) {
    // CHECK-NEXT: %[[X:.*]] = plan.launch @packed_linear_add(
    // CHECK-NEXT: plan.launch @layer_norm_packed_linear{{[_0-9]*}}(%[[X]]
    // CHECK-NEXT: nn.return
    %p = nn.packed_linear %y, %w layout fragments : (tensor<2x32xbf16>, tensor<2x2x128x2xbf16>) -> tensor<2x32xbf16>
    %x = nn.add %z, %p : tensor<2x32xbf16>
    // WHY: remark: {{.*}} is not fused with nn.add: only element-wise operations can be a product's epilogue
    %h, %m, %r = nn.layer_norm %x, %g, %g {eps = 1.0e-5 : f64} : (tensor<2x32xbf16>, tensor<32xbf16>, tensor<32xbf16>) -> (tensor<2x32xbf16>, tensor<2xf32>, tensor<2xf32>)
    %0 = nn.packed_linear %h, %w layout fragments : (tensor<2x32xbf16>, tensor<2x2x128x2xbf16>) -> tensor<2x32xbf16>
    nn.return %x, %0 : tensor<2x32xbf16>, tensor<2x32xbf16>
  }

  // No other kernel may need the rows.
  // CHECK-LABEL: nn.func @used
  nn.func @used(%x: tensor<2x32xbf16>, %g: tensor<32xbf16>, %w: tensor<1x2x128x2xbf16>) -> (tensor<2x16xbf16>, tensor<2x32xbf16>) {
    // CHECK-NEXT: plan.launch @rms_norm{{[_0-9]*}}(
    // CHECK-NEXT: plan.launch @packed_linear{{[_0-9]*}}(
    // CHECK-NEXT: nn.return
    %h, %r = nn.rms_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<2x32xbf16>, tensor<32xbf16>) -> (tensor<2x32xbf16>, tensor<2xf32>)
    // WHY: remark: {{.*}} is not fused with nn.rms_norm: what it makes is used elsewhere
    %0 = nn.packed_linear %h, %w layout fragments : (tensor<2x32xbf16>, tensor<1x2x128x2xbf16>) -> tensor<2x16xbf16>
    nn.return %0, %h : tensor<2x16xbf16>, tensor<2x32xbf16>
  }

  // Nor may a product that is in another kernel.
  // CHECK-LABEL: nn.func @apart
  nn.func @apart(%x: tensor<2x32xbf16>, %g: tensor<32xbf16>, %w: tensor<1x2x128x2xbf16>, %v: tensor<1x1x128xi32>, %s: tensor<1x1x16xf16>) -> (tensor<2x16xbf16>, tensor<2x16xbf16>) {
    // CHECK-NEXT: plan.launch @rms_norm{{[_0-9]*}}(
    // CHECK-NEXT: plan.launch @packed_linear{{[_0-9]*}}(
    // CHECK-NEXT: plan.launch @packed_linear{{[_0-9]*}}(
    // CHECK-NEXT: nn.return
    %h, %r = nn.rms_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<2x32xbf16>, tensor<32xbf16>) -> (tensor<2x32xbf16>, tensor<2xf32>)
    %0 = nn.packed_linear %h, %w layout fragments : (tensor<2x32xbf16>, tensor<1x2x128x2xbf16>) -> tensor<2x16xbf16>
    // WHY: remark: {{.*}} is not fused with nn.rms_norm: its weight is packed in another way
    // WHY: remark: {{.*}} is not fused with nn.packed_linear: its weight is packed in another way
    %1 = nn.packed_linear %h, %v scales %s bits 8 layout fragments : (tensor<2x32xbf16>, tensor<1x1x128xi32>, tensor<1x1x16xf16>) -> tensor<2x16xbf16>
    nn.return %0, %1 : tensor<2x16xbf16>, tensor<2x16xbf16>
  }

  // CHECK-LABEL: nn.func @many
  nn.func @many(%x: tensor<33x32xbf16>, %g: tensor<32xbf16>, %w: tensor<1x2x128x2xbf16>) -> tensor<33x16xbf16> {
    // CHECK-NEXT: plan.launch @rms_norm{{[_0-9]*}}(
    // CHECK-NEXT: plan.launch @packed_linear{{[_0-9]*}}(
    // CHECK-NEXT: nn.return
    %h, %r = nn.rms_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<33x32xbf16>, tensor<32xbf16>) -> (tensor<33x32xbf16>, tensor<33xf32>)
    // WHY: remark: {{.*}} is not fused with nn.rms_norm: the product has 33 rows, more than 32
    %0 = nn.packed_linear %h, %w layout fragments : (tensor<33x32xbf16>, tensor<1x2x128x2xbf16>) -> tensor<33x16xbf16>
    nn.return %0 : tensor<33x16xbf16>
  }

  // CHECK-LABEL: nn.func @long
  nn.func @long(%x: tensor<9x4096xbf16>, %g: tensor<4096xbf16>, %w: tensor<1x256x128x2xbf16>) -> tensor<9x16xbf16> {
    // CHECK-NEXT: plan.launch @rms_norm{{[_0-9]*}}(
    // CHECK-NEXT: plan.launch @packed_linear{{[_0-9]*}}(
    // CHECK-NEXT: nn.return
    %h, %r = nn.rms_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<9x4096xbf16>, tensor<4096xbf16>) -> (tensor<9x4096xbf16>, tensor<9xf32>)
    // WHY: remark: {{.*}} is not fused with nn.rms_norm: rows need more shared memory than 65536 bytes
    %0 = nn.packed_linear %h, %w layout fragments : (tensor<9x4096xbf16>, tensor<1x256x128x2xbf16>) -> tensor<9x16xbf16>
    nn.return %0 : tensor<9x16xbf16>
  }

  // CHECK-LABEL: nn.func @rounded
  nn.func @rounded(%x: tensor<2x32xbf16>, %g: tensor<32xbf16>, %w: tensor<1x1x128xi32>, %s: tensor<1x1x16xf16>) -> tensor<2x16xbf16> {
    // CHECK-NEXT: plan.launch @rms_norm{{[_0-9]*}}(
    // CHECK-NEXT: plan.launch @packed_linear{{[_0-9]*}}(
    // CHECK-NEXT: nn.return
    %h, %r = nn.rms_norm %x, %g {eps = 1.0e-5 : f64} : (tensor<2x32xbf16>, tensor<32xbf16>) -> (tensor<2x32xbf16>, tensor<2xf32>)
    // WHY: remark: {{.*}} is not fused with nn.rms_norm: the product rounds its rows
    %0 = nn.packed_linear %h, %w scales %s bits 8 input_block 32 layout fragments : (tensor<2x32xbf16>, tensor<1x1x128xi32>, tensor<1x1x16xf16>) -> tensor<2x16xbf16>
    nn.return %0 : tensor<2x16xbf16>
  }

  // CHECK-LABEL: nn.func @activation
  nn.func @activation(%x: tensor<2x32xbf16>, %w: tensor<1x2x128x2xbf16>) -> tensor<2x16xbf16> {
    // CHECK-NEXT: plan.launch @silu(
    // CHECK-NEXT: plan.launch @packed_linear{{[_0-9]*}}(
    // CHECK-NEXT: nn.return
    %h = nn.map silu(%x) : tensor<2x32xbf16>
    // WHY: remark: {{.*}} is not fused with nn.map: products of this target compute no rows but by one norm
    %0 = nn.packed_linear %h, %w layout fragments : (tensor<2x32xbf16>, tensor<1x2x128x2xbf16>) -> tensor<2x16xbf16>
    nn.return %0 : tensor<2x16xbf16>
  }
}
