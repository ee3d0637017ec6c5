// RUN: heddle-opt %s --fuse-form-kernels --fuse-verify | FileCheck %s
// RUN: heddle-opt %s --fuse-form-kernels=remarks=true 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK --implicit-check-not=remark:

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // The gradients of a norm's weights wait for the kernel of its input's
  // gradient, which reads the same rows. They take the place of what they are
  // added to.
  // CHECK-LABEL: nn.func @layer_norm
  nn.func @layer_norm(%w: tensor<64x8xf32>, %o: tensor<4x64xf32>, %x: tensor<4x8xf32>, %m: tensor<4xf32>, %s: tensor<4xf32>, %r: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) {
    // CHECK: %[[G:.*]] = plan.launch @linear(
    // CHECK-NEXT: plan.launch @layer_norm_grad_input_add_layer_norm_grad_weight(%[[G]], %{{[^)]*}}) : {{.*}} -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
    // CHECK-NEXT: nn.return
    %g = nn.linear %o, %w : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.linear: only element-wise operations can be a product's epilogue
    %dw, %db = nn.layer_norm_grad_weight %g, %x, %m, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %d = nn.layer_norm_grad_input %g, %x, %gamma, %m, %s : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
    %y = nn.add %d, %r : tensor<4x8xf32>
    nn.return %y, %dw, %db : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  }

  // What a kernel over rows makes, it can sum at once.
  // CHECK-LABEL: nn.func @made
  nn.func @made(%x: tensor<4x8xf32>, %i: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>) {
    // CHECK: plan.launch @relu_sum_rows(
    // CHECK-NEXT: nn.return
    %y = nn.map relu(%x) : tensor<4x8xf32>
    %s = nn.sum_rows %y init %i : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    nn.return %y, %s : tensor<4x8xf32>, tensor<8xf32>
  }

  // A sum that is used before that kernel is done cannot wait for it.
  // CHECK-LABEL: nn.func @between
  nn.func @between(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %r: tensor<4xf32>, %gamma: tensor<8xf32>, %n: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    // CHECK: %[[W:.*]] = plan.launch @rms_norm_grad_weight(
    // CHECK: plan.launch @rms_norm(%{{.*}}, %[[W]])
    // CHECK: plan.launch @rms_norm_grad_input_add(
    // REMARK: remark: {{.*}} is not fused with nn.rms_norm_grad_weight: its kernel (columns) takes no further operation
    // REMARK: remark: {{.*}} is not fused with nn.rms_norm_grad_input: a value of the kernel is used in between
    %dw = nn.rms_norm_grad_weight %g, %x, %r : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<8xf32>
    %y, %s = nn.rms_norm %n, %dw {eps = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %d = nn.rms_norm_grad_input %g, %x, %gamma, %r : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
    %z = nn.add %d, %x : tensor<4x8xf32>
    nn.return %z, %y : tensor<4x8xf32>, tensor<4x8xf32>
  }

  // No more columns than registers hold.
  // CHECK-LABEL: nn.func @wide
  nn.func @wide(%x: tensor<4x16385xf32>) -> (tensor<4x16385xf32>, tensor<16385xf32>) {
    // CHECK: plan.launch @relu(
    // CHECK: plan.launch @sum_rows(
    %y = nn.map relu(%x) : tensor<4x16385xf32>
    // REMARK: remark: {{.*}} is not fused with nn.map: there are too many sums of its columns
    %s = nn.sum_rows %y : (tensor<4x16385xf32>) -> tensor<16385xf32>
    nn.return %y, %s : tensor<4x16385xf32>, tensor<16385xf32>
  }

  // Other rows are another kernel's.
  // CHECK-LABEL: nn.func @shapes
  nn.func @shapes(%x: tensor<4x8xf32>) -> (tensor<4x2x4xf32>, tensor<8xf32>) {
    // CHECK: plan.launch @reshape(
    // CHECK: plan.launch @sum_rows_1(
    %z = nn.reshape %x : (tensor<4x8xf32>) -> tensor<4x2x4xf32>
    // REMARK: remark: {{.*}} is not fused with nn.reshape: it goes over another shape
    %s = nn.sum_rows %x : (tensor<4x8xf32>) -> tensor<8xf32>
    nn.return %z, %s : tensor<4x2x4xf32>, tensor<8xf32>
  }

  // Where the rows are multiplied first, the sum moves up: its initial value is
  // there. A sum whose initial value is not stays where it is.
  // CHECK-LABEL: nn.func @moved
  nn.func @moved(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %i: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) {
    // CHECK: %[[Y:.*]]:2 = plan.launch @relu_sum_rows_1(
    // CHECK-NEXT: plan.launch @linear_1(%[[Y]]#0
    // CHECK-NEXT: %[[J:.*]] = plan.launch @relu
    // CHECK-NEXT: plan.launch @sum_rows_2(%[[Y]]#0, %[[J]])
    %y = nn.map relu(%x) : tensor<4x8xf32>
    %z = nn.linear %y, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.map: a value of the kernel is used in between
    %s = nn.sum_rows %y init %i : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %j = nn.map relu(%i) : tensor<8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.map: a value of the kernel is used in between
    %t = nn.sum_rows %y init %j : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    nn.return %z, %s, %t : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}
