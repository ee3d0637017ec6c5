// RUN: sed 's/DROP/schedule = "0.25,0.5"/' %s | heddle-opt --train-drop-layers | FileCheck %s --check-prefixes=CHECK,CONSTANT
// RUN: sed 's/DROP/theta = 0.5, gamma = 0.01/' %s | heddle-opt --train-drop-layers | FileCheck %s --check-prefixes=CHECK,PROGRESSIVE
// RUN: sed 's/DROP//' %s | heddle-opt --train-drop-layers | FileCheck %s --check-prefix=NONE
// RUN: sed 's/DROP/schedule = "0.1,0.2,0.3"/' %s | not heddle-opt --train-drop-layers 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: sed 's/DROP/schedule = "0.25"/; s/nn.add %x, %b/nn.add %b, %b/; s/nn.add %c, %h/nn.add %c, %c/; s/nn.add .p, .y/nn.add %b, %b/' %s | not heddle-opt --train-drop-layers 2>&1 | FileCheck %s --check-prefix=PLAIN

// NONE-NOT: nn.condition
// NUMBER: error: H0157:
// PLAIN: error: H0355: calls no layer that adds a branch to its input, so no layer can be dropped

// CONSTANT: nn.condition @h.0.kept <"h.0", 2.500000e-01 : f64>
// CONSTANT: nn.condition @h.1.kept <"h.1", 5.000000e-01 : f64>
// PROGRESSIVE: nn.condition @h.0.kept <"h.0", 5.000000e-01 : f64 of 5.000000e-01 : f64, 1.000000e-02 : f64>
// PROGRESSIVE: nn.condition @h.1.kept <"h.1", 1.000000e+00 : f64 of 5.000000e-01 : f64, 1.000000e-02 : f64>
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{layer_drop = {DROP}}>, config = "{}", weights = {}} {
  // The norm is before the branches, each of which is an operand of an addition.
  // CHECK-LABEL: nn.func @before.dropped(
  // CHECK-SAME: %[[X:[^:]*]]: tensor<1x2x4xf32>, %[[W:[^:]*]]: tensor<4x4xf32>, %[[S:[^:]*]]: tensor<f32>)
  // CHECK: %[[B:.*]] = nn.linear
  // CHECK: %[[H:.*]] = nn.map (%[[R:.*]] = %[[X]], %[[Y:.*]] = %[[B]], %[[F:.*]] = %[[S]])
  // CHECK: %[[P:.*]] = arith.mulf %[[Y]], %[[F]] : f64
  // CHECK: arith.addf %[[R]], %[[P]] : f64
  // CHECK: %[[C:.*]] = nn.linear %[[H]]
  // CHECK: nn.map ({{.*}} = %[[H]], {{.*}} = %[[C]], {{.*}} = %[[S]])
  // CHECK-NOT: nn.add
  // CHECK: nn.return
  nn.func @before(%x: tensor<1x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x2x4xf32> {
    %n = nn.map relu(%x) : tensor<1x2x4xf32>
    %b = nn.linear %n, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
    %h = nn.add %x, %b : tensor<1x2x4xf32>
    %c = nn.linear %h, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
    %y = nn.add %c, %h : tensor<1x2x4xf32>
    nn.return %y : tensor<1x2x4xf32>
  }
  // Two branches are added first, and the norm comes after the addition to the
  // input. The sum of the branches is multiplied once.
  // CHECK-LABEL: nn.func @after.dropped(
  // CHECK: nn.add
  // CHECK: %[[SUM:.*]] = nn.map ({{.*}}) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<f32>)
  // CHECK: nn.map relu(%[[SUM]])
  // CHECK-NOT: nn.map (
  // CHECK: nn.return
  nn.func @after(%y: tensor<1x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x2x4xf32> {
    %a = nn.linear %y, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
    %b = nn.linear %a, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
    %p = nn.add %a, %b : tensor<1x2x4xf32>
    %s = nn.add %p, %y : tensor<1x2x4xf32>
    %n = nn.map relu(%s) : tensor<1x2x4xf32>
    nn.return %n : tensor<1x2x4xf32>
  }
  nn.state @w role parameter : tensor<4x4xf32>
  // The factor of each layer has the place of 64 elements.
  // CHECK-LABEL: nn.step @train
  // CHECK-SAME: %[[ALL:[^:]*]]: tensor<128xf32>)
  // CHECK-SAME: #nn.port<layer_scales>
  // CHECK: nn.micro_batches
  // CHECK: %[[SCALES:.*]]:2 = nn.unpack %[[ALL]]
  // CHECK: %[[Y0:.*]] = nn.call @before.dropped({{.*}}, %[[SCALES]]#0) path "h.0" when @h.0.kept passes [0]
  // CHECK: nn.call @after.dropped(%[[Y0]], {{.*}}, %[[SCALES]]#1) path "h.1" when @h.1.kept passes [0]
  nn.step @train(%x: tensor<1x1x2x4xf32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %0 = nn.micro_batch %x[%i] : tensor<1x1x2x4xf32> -> tensor<1x2x4xf32>
      %w = nn.get @w : tensor<4x4xf32>
      %1 = nn.call @before(%0, %w) path "h.0" : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
      %2 = nn.call @after(%1, %w) path "h.1" : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
      nn.keep %2 as "h" : tensor<1x2x4xf32>
      nn.return
    }
    %loss = nn.fill 0.0 : () -> tensor<f32>
    nn.return %loss : tensor<f32>
  }
  // CHECK-LABEL: nn.step @eval
  // CHECK-NOT: when
  nn.step @eval(%x: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> attributes {
      kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %w = nn.get @w : tensor<4x4xf32>
    %1 = nn.call @before(%x, %w) path "h.0" : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
    %2 = nn.call @after(%1, %w) path "h.1" : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
    nn.return %2 : tensor<1x2x4xf32>
  }
}
