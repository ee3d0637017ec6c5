// RUN: heddle-opt %s --fuse-form-kernels --fuse-verify | FileCheck %s
// RUN: heddle-opt %s --fuse-form-kernels=remarks=true 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK --implicit-check-not=remark:
// RUN: heddle-opt %s --fuse-form-kernels 2>&1 >/dev/null | FileCheck %s --check-prefix=QUIET --allow-empty

// QUIET-NOT: remark

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @epilogue
  nn.func @epilogue(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
    // CHECK: %[[Y:.*]] = plan.launch @linear_gelu_tanh_add(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: nn.return %[[Y]]
    %f = nn.linear %x, %w bias %b : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %g = nn.map gelu_tanh(%f) : tensor<4x8xf32>
    %y = nn.add %x, %g : tensor<4x8xf32>
    nn.return %y : tensor<4x8xf32>
  }

  // A norm reads whole rows of the product: no epilogue.
  // CHECK-LABEL: nn.func @rows
  nn.func @rows(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
    // CHECK: %[[F:.*]] = plan.launch @linear(
    // CHECK: plan.launch @rms_norm_relu(%[[F]], %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %f = nn.linear %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.linear: only element-wise operations can be a product's epilogue
    %n, %r = nn.rms_norm %f, %g {eps = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %y = nn.map relu(%n) : tensor<4x8xf32>
    nn.return %y : tensor<4x8xf32>
  }

  // A value that is read before the group is done cannot wait for it.
  // CHECK-LABEL: nn.func @between
  nn.func @between(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
    // CHECK: %[[A:.*]] = plan.launch @relu(
    // CHECK: %[[B:.*]] = plan.launch @linear_1(%[[A]]
    // CHECK: plan.launch @silu_mul_add(%[[A]], %[[B]])
    %a = nn.map relu(%x) : tensor<4x8xf32>
    %b = nn.linear %a, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.map: a value of the kernel is used in between
    %c = nn.map silu(%a) : tensor<4x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.map: a value of the kernel is used in between
    %d = nn.mul %c, %a : tensor<4x8xf32>
    // CHECK-NEXT: nn.return
    %e = nn.add %b, %d : tensor<4x8xf32>
    nn.return %e : tensor<4x8xf32>
  }

  // Sums take the place of what they add to, unless that is read again.
  // CHECK-LABEL: nn.func @ties
  nn.func @ties(%x: tensor<4x8xf32>, %i: tensor<8xf32>, %j: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    // CHECK: plan.launch @sum_rows(
    // CHECK: plan.launch @sum_rows_1(
    %a = nn.sum_rows %x init %i : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %b = nn.sum_rows %x init %j : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.sum_rows: its kernel (columns) takes no further operation
    %c = nn.add %b, %j : tensor<8xf32>
    nn.return %a, %c : tensor<8xf32>, tensor<8xf32>
  }

  // What products sum beside, the target says; that of this strategy nothing.
  // CHECK-LABEL: nn.func @gradients
  nn.func @gradients(%x: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) {
    // CHECK: plan.launch @linear_grad_weight(
    // CHECK: plan.launch @sum_rows_2(
    %w = nn.linear_grad_weight %x, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    // REMARK: remark: {{.*}} is not fused with nn.linear_grad_weight: products of this target sum none of what they multiply
    %b = nn.sum_rows %g : (tensor<4x8xf32>) -> tensor<8xf32>
    nn.return %w, %b : tensor<8x8xf32>, tensor<8xf32>
  }

  // Two shapes are two kernels.
  // CHECK-LABEL: nn.func @shapes
  nn.func @shapes(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<4xf32> {
    // CHECK: plan.launch @cross_entropy(
    // CHECK: plan.launch @relu_1(
    %losses, %lse = nn.cross_entropy %x, %labels : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
    // REMARK: remark: {{.*}} is not fused with nn.cross_entropy: it goes over another shape
    %y = nn.map relu(%losses) : tensor<4xf32>
    nn.return %y : tensor<4xf32>
  }

  // The same in a loop of micro-batches; what only the kernel reads is no result.
  // CHECK-LABEL: nn.step @train
  nn.step @train(%logits: tensor<4x8xf32>, %labels: tensor<4xi32>, %w: tensor<4xf32>) attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<value, "y">, #nn.port<value, "w">], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      // CHECK: plan.launch @gelu_cross_entropy_cross_entropy_grad(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4xi32>, tensor<4xf32>) -> tensor<4x8xf32>
      %z = nn.map gelu(%logits) : tensor<4x8xf32>
      %losses, %lse = nn.cross_entropy %z, %labels : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
      %g = nn.cross_entropy_grad %z, %labels, %lse, %w : (tensor<4x8xf32>, tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x8xf32>
      nn.keep %g as "g" : tensor<4x8xf32>
      nn.return
    }
    nn.return
  }

  // CHECK: plan.kernel @linear_gelu_tanh_add({{.*}}) -> tensor<4x8xf32> attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>}
  // CHECK-NEXT: nn.linear
  // CHECK-NEXT: nn.map gelu_tanh(
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: plan.yield
  // CHECK: plan.kernel @sum_rows({{.*}} attributes {generator = #plan.generator<columns>, ties = array<i64: 1>}
  // CHECK: plan.kernel @sum_rows_1({{.*}} attributes {generator = #plan.generator<columns>, ties = array<i64: -1>}
}
