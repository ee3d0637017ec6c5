// RUN: heddle-opt %s --shard-make-mesh --shard-propagate --shard-insert-reshards --verify-diagnostics

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  nn.state @qkv role parameter : tensor<6x18xf32> {trainable, storage = #dist.sharding<[[], ["tensor"]], unreduced []>}
  nn.step @eval(%x: tensor<2x4x6xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = []} {
    %w = nn.get @qkv : tensor<6x18xf32>
    %0 = nn.linear %x, %w : (tensor<2x4x6xf32>, tensor<6x18xf32>) -> tensor<2x4x18xf32>
    // expected-error @+2 {{H0130: tensor=2 cannot split 3 heads of nn.attention}}
    // expected-note @+1 {{help: let tensor be 1 or 3}}
    %1, %lse = nn.attention %0 {heads = #nn.heads<3, scale = 1.0>, mask = #nn.mask<causal>} : (tensor<2x4x18xf32>) -> (tensor<2x4x6xf32>, tensor<2x3x4xf32>)
    nn.return
  }
}
