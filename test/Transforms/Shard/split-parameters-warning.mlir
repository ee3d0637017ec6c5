// RUN: heddle-opt %s --shard-make-mesh --shard-split-parameters --verify-diagnostics

// An axis that was asked for and splits no layer.

// expected-warning @+1 {{the axis tensor=2 splits no layer, its ranks all compute the same: there are no two products with only element-wise operations or attention between them; h.*.norm (nn.rms_norm) follows a product and needs all its features}}
nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @a role parameter : tensor<4x4xf32> {trainable}
  nn.state @n role parameter : tensor<4xf32> {trainable}
  nn.func @layer(%x: tensor<2x3x4xf32>, %a: tensor<4x4xf32>, %n: tensor<4xf32>) -> tensor<2x3x4xf32> {
    %0 = nn.linear %x, %a : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
    %1, %r = nn.rms_norm %0, %n {eps = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>) loc("h.*.norm")
    nn.return %1 : tensor<2x3x4xf32>
  }
  nn.step @train(%x: tensor<2x3x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    %a = nn.get @a : tensor<4x4xf32>
    %n = nn.get @n : tensor<4xf32>
    %y = nn.call @layer(%x, %a, %n) path "h.0" : (tensor<2x3x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
    nn.return
  }
}
