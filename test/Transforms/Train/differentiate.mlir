// RUN: sed s/POLICY/none/ %s | heddle-opt --train-differentiate | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: sed s/POLICY/selective/ %s | heddle-opt --train-differentiate | FileCheck %s --check-prefixes=CHECK,SELECTIVE
// RUN: sed s/POLICY/full/ %s | heddle-opt --train-differentiate | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: sed 's/POLICY/none/; s/accumulate = 1/accumulate = 2/; s/global = 2/global = 4/' %s \
// RUN:   | sed 's/micro = 4/micro = 2/' | heddle-opt --train-differentiate | FileCheck %s --check-prefix=SUMS

// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, accumulate = 1, seq = 3}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @scale role scalar : tensor<f32>
  // CHECK: nn.state @wte role parameter
  // CHECK-NEXT: nn.state @wte.grad role gradient : tensor<8x4xf32> {decays, parameter = "wte"}
  nn.state @wte role parameter : tensor<8x4xf32> {trainable, decays}
  // CHECK: nn.state @w.grad role gradient : tensor<4x4xf32> {parameter = "w"}
  nn.state @w role parameter : tensor<4x4xf32> {trainable}
  // A frozen parameter has no gradient.
  // CHECK: nn.state @frozen role parameter
  // CHECK-NOT: nn.state @frozen.grad
  nn.state @frozen role parameter : tensor<4xf32>

  // Only the pair is left. With sums (several micro-batches) the backward
  // function takes what it adds to.

  // `none` saves what gradients read: the norm's output and statistics, and the
  // product. `selective` saves the product alone and makes the norm again;
  // `full` saves nothing and runs the layer again.
  // NONE: nn.func @block.fwd({{.*}}) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3x4xf32>) {
  // SELECTIVE: nn.func @block.fwd({{.*}}) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  // FULL: nn.func @block.fwd({{.*}}) -> tensor<2x3x4xf32> {
  // CHECK: %[[N:.*]], %[[R:.*]] = nn.rms_norm
  // CHECK-NEXT: %[[F:.*]] = nn.linear
  // CHECK-NEXT: nn.map gelu
  // CHECK-NEXT: %[[Y:.*]] = nn.add
  // NONE-NEXT: nn.return %[[Y]], %[[N]], %[[R]], %[[F]]
  // SELECTIVE-NEXT: nn.return %[[Y]], %[[F]]
  // FULL-NEXT: nn.return %[[Y]] :

  // CHECK: nn.func @block.bwd(
  // SUMS: nn.func @block.bwd(
  // CHECK-NOT: nn.add
  // NONE-NOT: nn.rms_norm %
  // NONE-NOT: nn.map gelu(
  // SELECTIVE: nn.rms_norm %
  // SELECTIVE-NOT: nn.linear %
  // FULL: nn.rms_norm %
  // FULL: nn.linear %
  // FULL-NOT: nn.map gelu(
  // CHECK: %[[G:.*]] = nn.map gelu_tanh_grad(%{{.*}}, %{{.*}})
  // CHECK: %[[L:.*]] = nn.linear %[[G]], %{{.*}} {transposed}
  // CHECK: %[[DW:.*]] = nn.linear_grad_weight %{{[^ ]*}}, %[[G]] : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<4x4xf32>
  // SUMS: nn.linear_grad_weight %{{[^ ]*}}, %{{[^ ]*}} init %{{[^ ]*}} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // The norm's weight is frozen: no gradient for it.
  // CHECK-NOT: rms_norm_grad_weight
  // CHECK: %[[I:.*]] = nn.rms_norm_grad_input %[[L]]
  // CHECK: %[[DX:.*]] = nn.add %{{.*}}, %[[I]]
  // CHECK: nn.return %[[DX]], %[[DW]]
  // CHECK-NOT: nn.func @block(
  nn.func @block(%x: tensor<2x3x4xf32>, %w: tensor<4x4xf32>, %g: tensor<4xf32>) -> tensor<2x3x4xf32> {
    %n, %r = nn.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>)
    %f = nn.linear %n, %w : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
    %a = nn.map gelu_tanh(%f) : tensor<2x3x4xf32>
    %y = nn.add %x, %a : tensor<2x3x4xf32>
    nn.return %y : tensor<2x3x4xf32>
  }

  // CHECK: nn.step @train
  // SUMS: nn.step @train
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<8x4xf32>
      %w = nn.get @w : tensor<4x4xf32>
      %frozen = nn.get @frozen : tensor<4xf32>
      %x = nn.embedding %wte[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      // NONE: %[[CALL:.*]]:4 = nn.call @block.fwd({{.*}}) path "h.0"
      // SELECTIVE: %[[CALL:.*]]:2 = nn.call @block.fwd({{.*}}) path "h.0"
      // FULL: %[[CALL:.*]] = nn.call @block.fwd({{.*}}) path "h.0"
      %y = nn.call @block(%x, %w, %frozen) path "h.0" recompute POLICY : (tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
      %z = nn.linear %y, %wte {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
      // CHECK: %[[LOSSES:.*]], %[[LSE:.*]] = nn.cross_entropy
      %losses, %lse = nn.cross_entropy %z, %id : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
      %scale = nn.get @scale : tensor<f32>
      %weights = nn.token_weights %id scale %scale : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
      %before = nn.get @loss : tensor<f32>
      %sum = nn.sum %losses weights %weights init %before : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
      nn.set @loss, %sum : tensor<f32>
      // The gradient of the losses is what each weighs.
      // CHECK: %[[WEIGHTS:.*]] = nn.token_weights
      // CHECK: %[[DZ:.*]] = nn.cross_entropy_grad %{{.*}}, %{{.*}}, %[[LSE]], %[[WEIGHTS]]
      // CHECK: nn.linear %[[DZ]], %{{.*}} : (tensor<2x3x8xf32>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
      // The embedding is used twice: its second gradient adds to the first.
      // SUMS: %[[OLD:.*]] = nn.get @wte.grad
      // SUMS: %[[HEAD:.*]] = nn.linear_grad_weight %{{.*}}, %{{.*}} init %[[OLD]] {transposed}
      // CHECK: %[[HEAD:.*]] = nn.linear_grad_weight %{{[^ ]*}}, %[[DZ]] {transposed}
      // SUMS: %[[OLDW:.*]] = nn.get @w.grad
      // SUMS: nn.call @block.bwd({{.*}}%[[OLDW]]{{.*}}) path "h.0"
      // CHECK: %[[BACK:.*]]:2 = nn.call @block.bwd({{.*}}) path "h.0"
      // CHECK: nn.set @w.grad, %[[BACK]]#1
      // CHECK: %[[TOTAL:.*]] = nn.embedding_grad %[[BACK]]#0[%{{.*}}] init %[[HEAD]]
      // CHECK: nn.set @wte.grad, %[[TOTAL]]
      // The sum of the losses goes last.
      // CHECK: nn.sum %[[LOSSES]] weights %[[WEIGHTS]]
      nn.return
    }
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}
