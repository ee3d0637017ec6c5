// RUN: heddle-opt %s --train-differentiate | FileCheck %s

// What a layer returns to be kept alone has no gradient: none is handed back.

// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, seq = 3}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @scale role scalar : tensor<f32>
  nn.state @w role parameter : tensor<8x4xf32> {trainable}
  // CHECK: nn.func @block.bwd(%{{[^ ]*}}: tensor<2x3x4xf32>, %{{[^ ]*}}: tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK-NOT: nn.add
  nn.func @block(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
    %a = nn.map gelu_tanh(%x) : tensor<2x3x4xf32>
    %b = nn.map gelu_tanh(%a) : tensor<2x3x4xf32>
    nn.return %a, %b : tensor<2x3x4xf32>, tensor<2x3x4xf32>
  }
  // CHECK: nn.step @train
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %w = nn.get @w : tensor<8x4xf32>
      %x = nn.embedding %w[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %y:2 = nn.call @block(%x) path "h.0" : (tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>)
      // CHECK-NOT: nn.fill
      nn.keep %y#1 as "h.0.b" : tensor<2x3x4xf32>
      %z = nn.linear %y#0, %w {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
      %losses, %lse = nn.cross_entropy %z, %id : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
      %scale = nn.get @scale : tensor<f32>
      %weights = nn.token_weights %id scale %scale : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
      %before = nn.get @loss : tensor<f32>
      %sum = nn.sum %losses weights %weights init %before : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
      nn.set @loss, %sum : tensor<f32>
      nn.return
    }
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}
