// RUN: sed s/POLICY/none/ %s | heddle-opt --train-recompute | FileCheck %s -DPOLICY=none
// RUN: sed s/POLICY/selective/ %s | heddle-opt --train-recompute | FileCheck %s -DPOLICY=selective
// RUN: sed s/POLICY/full/ %s | heddle-opt --train-recompute | FileCheck %s -DPOLICY=full
// RUN: sed s/POLICY/some/ %s | not heddle-opt --train-recompute 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: strategy: recompute "some" is not one of none, selective, full

// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{recompute = POLICY}>, config = "{}", weights = {}} {
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @train(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // CHECK: nn.call @layer{{.*}} path "h.0" recompute [[POLICY]]
    %0 = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    // What stands at a call is kept.
    // CHECK: nn.call @layer{{.*}} path "h.1" recompute full
    %1 = nn.call @layer(%0) path "h.1" recompute full : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %1 : tensor<4xf32>
  }
  nn.step @eval(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // CHECK: nn.call @layer{{.*}} path "h.0" :
    %0 = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %0 : tensor<4xf32>
  }
}
