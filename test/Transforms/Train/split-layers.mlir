// RUN: heddle-opt %s --train-split-layers --split-input-file --verify-diagnostics | FileCheck %s
// RUN: heddle-opt %s --train-split-layers=sequential --split-input-file --verify-diagnostics | FileCheck %s --check-prefix STAGES

// The first layer is computed from the batch, the others from hidden states.
// Products that read one value share its moments; what a product computes is
// not needed for them. A weight that is no parameter has no name to give them
// under.

// CHECK-LABEL: nn.model @small
// CHECK: nn.state @w role parameter : tensor<9x8xf32>{{$}}
// CHECK-NOT: nn.func @forward
// CHECK: nn.func @block(
// CHECK: nn.func @evaluate(
// CHECK: nn.func @layer.0(%[[IDS:.*]]: tensor<2x4xi32>) -> tensor<2x4x8xf32>
// CHECK-SAME: inputs = [#nn.port<ids>], outputs = [#nn.port<hidden>], program = #nn.program<encode>
// CHECK: %[[X:.*]] = nn.embedding %{{.*}}[%[[IDS]]]
// CHECK: %[[Y:.*]] = nn.call @block(%[[X]], %{{.*}}) path "h.0"
// CHECK-NEXT: nn.return %[[Y]]
// CHECK: nn.func @block.inputs.0(%[[X:.*]]: tensor<2x4x8xf32>, %[[A:.*]]: tensor<8x6xf32>, %[[C:.*]]: tensor<8x6xf32>, %{{.*}}: tensor<6x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<6x6xf32>)
// CHECK-NEXT: %[[M:.*]] = nn.linear_grad_weight %[[X]], %[[X]] : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT: %[[U:.*]] = nn.linear %[[X]], %[[A]]
// CHECK-NEXT: %[[V:.*]] = nn.linear %[[X]], %[[C]]
// CHECK-NEXT: %[[S:.*]] = nn.add %[[U]], %[[V]]
// CHECK-NEXT: %[[N:.*]] = nn.linear_grad_weight %[[S]], %[[S]]
// CHECK-NEXT: nn.return %[[M]], %[[M]], %[[N]]
// CHECK: nn.func @inputs.0.0(%{{.*}}: tensor<2x4xi32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<6x6xf32>)
// CHECK-SAME: outputs = [#nn.port<value, "value.a">, #nn.port<value, "value.c">, #nn.port<value, "value.b">]
// CHECK: nn.func @layer.1(%[[H:.*]]: tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// CHECK-SAME: inputs = [#nn.port<hidden, "before">], outputs = [#nn.port<hidden>]
// CHECK-NOT: path "h.0"
// CHECK: %[[Y:.*]] = nn.call @block(%[[H]], %{{.*}}) path "h.1"
// CHECK-NEXT: nn.return %[[Y]]
// CHECK: nn.func @inputs.1.0(%{{.*}}: tensor<2x4x8xf32>) -> (tensor<8x8xf32>, tensor<6x6xf32>)
// CHECK-SAME: outputs = [#nn.port<value, "value.c">, #nn.port<value, "value.b">]
// CHECK: nn.call @block.inputs.0({{.*}}) path "h.1"
// CHECK-NOT: nn.func

// A stage computes what stands before its products, and no more. In the second
// layer only one product of the first stage has a parameter.
// STAGES-LABEL: nn.model @small
// STAGES: nn.func @block.inputs.0(%[[X:.*]]: tensor<2x4x8xf32>, {{.*}}) -> (tensor<8x8xf32>, tensor<8x8xf32>)
// STAGES-NEXT: %[[M:.*]] = nn.linear_grad_weight %[[X]], %[[X]]
// STAGES-NEXT: nn.return %[[M]], %[[M]]
// STAGES: nn.func @block.inputs.1(%{{.*}}) -> tensor<6x6xf32>
// STAGES: nn.add
// STAGES-NEXT: nn.linear_grad_weight
// STAGES-NEXT: nn.return
// STAGES: nn.func @inputs.0.0(
// STAGES-SAME: outputs = [#nn.port<value, "value.a">, #nn.port<value, "value.c">]
// STAGES: nn.func @inputs.0.1(
// STAGES-SAME: outputs = [#nn.port<value, "value.b">]
// STAGES: nn.func @inputs.1.0(
// STAGES-SAME: outputs = [#nn.port<value, "value.c">]
// STAGES: nn.func @inputs.1.1(
// STAGES-SAME: outputs = [#nn.port<value, "value.b">]
// STAGES-NOT: nn.func
nn.model @small family "small" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, seq = 4}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32> {trainable}
  nn.state @a role parameter : tensor<8x6xf32> {trainable}
  nn.state @c role parameter : tensor<8x6xf32> {trainable}
  nn.state @b role parameter : tensor<6x8xf32> {trainable}
  nn.func @forward(%ids: tensor<2x4xi32>, %labels: tensor<2x4xi32>) -> tensor<2x4xf32>
      attributes {inputs = [#nn.port<ids>, #nn.port<labels>], outputs = [#nn.port<losses>], program = #nn.program<train>} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
    %l, %lse = nn.cross_entropy %x, %labels : (tensor<2x4x8xf32>, tensor<2x4xi32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    nn.return %l : tensor<2x4xf32>
  }
  nn.func @block(%x: tensor<2x4x8xf32>, %a: tensor<8x6xf32>, %c: tensor<8x6xf32>, %b: tensor<6x8xf32>) -> tensor<2x4x8xf32> {
    %u = nn.linear %x, %a : (tensor<2x4x8xf32>, tensor<8x6xf32>) -> tensor<2x4x6xf32>
    %v = nn.linear %x, %c : (tensor<2x4x8xf32>, tensor<8x6xf32>) -> tensor<2x4x6xf32>
    %s = nn.add %u, %v : tensor<2x4x6xf32>
    %y = nn.linear %s, %b : (tensor<2x4x6xf32>, tensor<6x8xf32>) -> tensor<2x4x8xf32>
    nn.return %y : tensor<2x4x8xf32>
  }
  nn.func @evaluate(%ids: tensor<2x4xi32>, %labels: tensor<2x4xi32>) -> tensor<2x4xf32>
      attributes {inputs = [#nn.port<ids>, #nn.port<labels>], outputs = [#nn.port<losses>], program = #nn.program<eval>} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
    %a = nn.get @a : tensor<8x6xf32>
    %c = nn.get @c : tensor<8x6xf32>
    %b = nn.get @b : tensor<6x8xf32>
    %y = nn.call @block(%x, %a, %c, %b) path "h.0" : (tensor<2x4x8xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<2x4x8xf32>
    %half = nn.map gelu_tanh(%a) : tensor<8x6xf32>
    %z = nn.call @block(%y, %half, %c, %b) path "h.1" : (tensor<2x4x8xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<2x4x8xf32>
    %l, %lse = nn.cross_entropy %z, %labels : (tensor<2x4x8xf32>, tensor<2x4xi32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    nn.return %l : tensor<2x4xf32>
  }
}

// -----

nn.model @skips family "small" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, seq = 4}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  nn.func @block(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
    %y = nn.map silu(%x) : tensor<2x4x8xf32>
    nn.return %y : tensor<2x4x8xf32>
  }
  nn.func @evaluate(%ids: tensor<2x4xi32>, %labels: tensor<2x4xi32>) -> tensor<2x4xf32>
      attributes {inputs = [#nn.port<ids>, #nn.port<labels>], outputs = [#nn.port<losses>], program = #nn.program<eval>} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
    %y = nn.call @block(%x) path "h.0" : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %z = nn.call @block(%y) path "h.1" : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %s = nn.add %y, %z : tensor<2x4x8xf32>
    // expected-error @+2 {{H0153: the layer cannot be calibrated: it reads more than the hidden states of the layer before it}}
    // expected-note @+1 {{help: leave out --calibration}}
    %u = nn.call @block(%s) path "h.2" : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %l, %lse = nn.cross_entropy %u, %labels : (tensor<2x4x8xf32>, tensor<2x4xi32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    nn.return %l : tensor<2x4xf32>
  }
}
