// RUN: /usr/bin/python3 %S/Inputs/make_ids.py %t.in
// RUN: %heddle eval %s --inputs %t.in --precision f64 | FileCheck %s

// CHECK: step 1
// The table is zeros, as its state has no init: every loss is ln 4.
// CHECK-NEXT: loss {{ *}}1.38629436
// CHECK-NEXT: loss_weight 4
// CHECK-NEXT: value.hidden [2, 2, 3] 0 0 0 0 0 0 0 0 ...
nn.model @m family "test" phase "model"
    attributes {strategy = #dist.strategy<{}>, config = "{}",
                weights = {random = true, seed = 1 : i64}} {
  nn.state @table role parameter : tensor<4x3xf32> {trainable}
  nn.func @embed(%table: tensor<4x3xf32>, %ids: tensor<2x2xi32>)
      -> tensor<2x2x3xf32> {
    %x = nn.embedding %table[%ids] : (tensor<4x3xf32>, tensor<2x2xi32>)
        -> tensor<2x2x3xf32>
    nn.return %x : tensor<2x2x3xf32>
  }
  nn.func @forward(%ids: tensor<2x2xi32>, %labels: tensor<2x2xi32>)
      -> tensor<2x2xf32>
      attributes {program = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<labels>],
                  outputs = [#nn.port<losses>]} {
    %table = nn.get @table : tensor<4x3xf32>
    %x = nn.call @embed(%table, %ids) path "wte"
        : (tensor<4x3xf32>, tensor<2x2xi32>) -> tensor<2x2x3xf32>
    nn.keep %x as "hidden" : tensor<2x2x3xf32>
    %logits = nn.linear %x, %table {transposed}
        : (tensor<2x2x3xf32>, tensor<4x3xf32>) -> tensor<2x2x4xf32>
    %losses, %lse = nn.cross_entropy %logits, %labels
        : (tensor<2x2x4xf32>, tensor<2x2xi32>)
        -> (tensor<2x2xf32>, tensor<2x2xf32>)
    nn.return %losses : tensor<2x2xf32>
  }
}
